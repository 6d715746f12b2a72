#include "locale_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t made_once = PTHREAD_ONCE_INIT;
static locale_t made; /* until the process ends; 0: no memory, and the program's locale stays */

static void make(void) { made = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t mst_locale_begin(void) {
    pthread_once(&made_once, make);
    return made ? uselocale(made) : (locale_t)0;
}

void mst_locale_end(locale_t before) {
    if (before) (void)uselocale(before);
}

int mst_vsnprintf(char *text, size_t size, const char *format, va_list arguments) {
    const locale_t before = mst_locale_begin();
    const int length = vsnprintf(text, size, format, arguments);
    mst_locale_end(before);
    return length;
}

int mst_snprintf(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = mst_vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

double mst_strtod(const char *text, char **end) {
    const locale_t before = mst_locale_begin();
    const double value = strtod(text, end);
    mst_locale_end(before);
    return value;
}
