/* Texts and numbers of the library have points, whatever the program's locale is (setlocale). */
#ifndef MST_LOCALE_IMPL_H
#define MST_LOCALE_IMPL_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

/* Between these two, printf and strtod take numbers of the locale "C" in the calling thread. Only
 * for code of the library. end: what begin has returned. */
locale_t mst_locale_begin(void);
void mst_locale_end(locale_t before);
/* As in the locale "C". */
int mst_snprintf(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int mst_vsnprintf(char *text, size_t size, const char *format, va_list arguments) __attribute__((format(printf, 3, 0)));
double mst_strtod(const char *text, char **end);

#endif
