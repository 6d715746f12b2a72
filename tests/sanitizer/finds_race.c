/* A planted data race. */
#include <pthread.h>
#include <stddef.h>

static int counter;

static void *count(void *argument) {
    (void)argument;
    for (int i = 0; i < 1000; i++) counter++;
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, count, NULL) != 0) return 0;
    count(NULL);
    pthread_join(thread, NULL);
    return counter == 0;
}
