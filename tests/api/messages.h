/* The table of wrong arguments: what its rows share. Each row calls one public function with one
 * wrong argument, and is checked when it runs. */
#ifndef API_MESSAGES_H
#define API_MESSAGES_H

#include "base_check.h"
#include "muster/muster.h"

/* The call gives `code`, and the message names the function, the argument, what was expected and
 * what was received. */
#define REFUSE(code, argument, function, ...) messages_refused(#function, argument, MUSTER_##code, function(__VA_ARGS__))
/* The function cannot fail: with this argument it gives what its header says. */
#define GIVES(function, expression) messages_given(#function, #expression, expression)

void messages_refused(const char *function, const char *argument, muster_status expected, muster_status received);
/* The same of a function whose messages name another one, for which a macro calls it. */
void messages_refused_as(const char *function, const char *shown, const char *argument, muster_status expected, muster_status received);
void messages_given(const char *function, const char *expression, bool holds);

/* Has a row of this function run, with this argument refused (NULL: any row)? */
bool messages_has_row(const char *function, const char *argument);

/* The objects that rows need for their other arguments, on a runtime of one host device. */
typedef struct messages_objects {
    muster_runtime *runtime, *other;
    muster_function *function; /* input "x" (n, 2), output "y" (2); not sealed */
    muster_function *body;     /* without arguments; its body runs the rows of workers */
    muster_function *compiled; /* of a graph: input "x" (2), output "y" (2) */
    muster_variable *variable; /* (2, 2) */
    muster_kernel *kernel;     /* of a buffer and a size */
    muster_server *server;     /* one value of 4 elements */
    muster_client *client;
} messages_objects;
extern messages_objects messages_of;

/* The rows, module by module; those of the last three run inside a body. */
void messages_base(void);
void messages_tensors(void);
void messages_runtimes(void);
void messages_variables(void);
void messages_functions(void);
void messages_kernels(void);
void messages_graphs(void);
void messages_rules(void);
void messages_operators(void);
void messages_servers(void);
void messages_operations(muster_worker *worker);
void messages_workers(muster_worker *worker);
void messages_drivers(muster_worker *worker);

#endif
