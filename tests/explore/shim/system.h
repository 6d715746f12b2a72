/* Included before everything else in the scheduler's files when they are compiled for the explorer:
 * what they ask of the system goes to the explorer. */
#ifndef EXPLORE_SYSTEM_H
#define EXPLORE_SYSTEM_H

#include "operation.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long explore_syscall(long number, ...);
void *explore_memcpy(void *to, const void *from, size_t bytes);
int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*entry)(void *), void *argument);
int explore_pthread_join(pthread_t thread, void **result);

#define syscall explore_syscall
#define memcpy explore_memcpy
#define pthread_create explore_pthread_create
#define pthread_join explore_pthread_join
int explore_mutex(pthread_mutex_t *mutex, bool lock);
#define pthread_mutex_init(mutex, attributes) (memset((mutex), 0, sizeof(*(mutex))), 0)
#define pthread_mutex_destroy(mutex) ((void)(mutex), 0)
#define pthread_mutex_lock(mutex) explore_mutex((mutex), true)
#define pthread_mutex_unlock(mutex) explore_mutex((mutex), false)
int explore_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int explore_condition_signal(pthread_cond_t *condition);
#define pthread_cond_init(condition, attributes) (memset((condition), 0, sizeof(*(condition))), 0)
#define pthread_cond_destroy(condition) ((void)(condition), 0)
#define pthread_cond_wait(condition, mutex) explore_condition_wait((condition), (mutex))
#define pthread_cond_signal(condition) explore_condition_signal(condition)
#define pthread_setname_np(thread, name) ((void)(thread), (void)(name), 0)
#define pthread_setaffinity_np(thread, bytes, set) ((void)(thread), (void)(bytes), (void)(set), 1)
#define pthread_sigmask(how, set, before) ((void)(how), (void)(set), (void)(before), 0)
#define pthread_getcpuclockid(thread, clock) ((void)(thread), (void)(clock), 1) /* user code uses no time */
#define pthread_atfork(prepare, parent, child) ((void)(child), 0)
#define MST_HANDLERS 0          /* no signals; the explored threads are one thread to the system */
#define sched_yield() ((void)0) /* between two operations any thread may run anyway */
#define sched_getcpu() (-1)
#define sched_getscheduler(process) (SCHED_OTHER)

#endif
