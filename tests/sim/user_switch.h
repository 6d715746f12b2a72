/* Going from one stack to another. */
#ifndef MUSTER_SIM_USER_SWITCH_H
#define MUSTER_SIM_USER_SWITCH_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__) && !defined(MUSTER_SIM_UCONTEXT)

typedef struct user_stack {
    void *top;
} user_stack;

/* Keeps what a function must keep, on the stack that it leaves. */
__attribute__((visibility("hidden"))) void user_stack_switch(user_stack *from, const user_stack *to);
asm(".pushsection .text\n"
    ".globl user_stack_switch\n"
    ".hidden user_stack_switch\n"
    ".type user_stack_switch, @function\n"
    "user_stack_switch:\n"
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov (%rsi), %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    "ret\n"
    ".size user_stack_switch, . - user_stack_switch\n"
    ".popsection\n");

/* So that the first switch to it calls `begin`, which never returns. The end of the memory is a
 * multiple of 16. */
static inline bool user_stack_make(user_stack *made, char *memory, size_t bytes, void (*begin)(void)) {
    void **end = (void **)(memory + bytes);
    end[-1] = NULL;
    end[-2] = (void *)begin;
    for (int i = 3; i <= 8; i++) end[-i] = NULL;
    made->top = end - 8;
    return true;
}

#else
#include <ucontext.h>

typedef ucontext_t user_stack;

static inline void user_stack_switch(user_stack *from, const user_stack *to) { swapcontext(from, to); }

static inline bool user_stack_make(user_stack *made, char *memory, size_t bytes, void (*begin)(void)) {
    if (getcontext(made) != 0) return false;
    made->uc_stack.ss_sp = memory;
    made->uc_stack.ss_size = bytes;
    made->uc_link = NULL;
    makecontext(made, begin, 0);
    return true;
}

#endif
#endif
