/* The modelled machine: threads on stacks of their own, and the steps that they can take.
 * What an operation does is in memory.c. */
#include "machine_private.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <ucontext.h>

enum { MOST_SLEEPING = 4, MOST_COUNTERS = 12, MOST_QUIET = 4 };

struct machine_world machine_world;
_Alignas(64) char machine_arena[ARENA_BYTES], machine_stacks[EXPLORE_THREADS][STACK_BYTES];
thread_entry machine_entries[EXPLORE_THREADS];
int32_t machine_current = -1, machine_wake_choice;
jmp_buf machine_search_registers;

static struct {
    uint32_t *word;
    const uint32_t *users;
} counters[MOST_COUNTERS];
static struct {
    const char *from, *to;
    bool constant;
} quiet[MOST_QUIET];
static const void *may_sleep[MOST_SLEEPING];
static int32_t counter_count, quiet_count, may_sleep_count;

/* The thread-local variables of this program: one block, which is exchanged with the modelled
 * thread that runs. */
static struct {
    char *at;
    size_t bytes;
} locals;

/* The first module is the program. */
static int find_locals(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
        if (info->dlpi_phdr[i].p_memsz > OWN_BYTES) machine_broken("too many thread-local variables");
        if (info->dlpi_phdr[i].p_filesz > 0) machine_broken("a thread-local variable begins with another value than zero");
        locals.at = info->dlpi_tls_data;
        locals.bytes = info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static void exchange_locals(thread *t) {
    char outside[OWN_BYTES];
    memcpy(outside, locals.at, locals.bytes);
    memcpy(locals.at, t->own, locals.bytes);
    memcpy(t->own, outside, locals.bytes);
}

void machine_reset(const explore_scenario *scenario) {
    memset(&machine_world, 0, sizeof(machine_world));
    memset(machine_stacks, 0, sizeof(machine_stacks));
    machine_world.spurious = scenario->spurious;
    machine_world.preemptions = scenario->preemptions > 0 ? scenario->preemptions : -1;
    machine_current = -1;
    (void)dl_iterate_phdr(find_locals, NULL);
    may_sleep_count = quiet_count = counter_count = 0;
    machine_reset_memory();
    machine_reset_state();
    machine_reset_trace();
}

/* ---- promises of a scenario ---- */

void explore_may_sleep(const void *futex) {
    if (may_sleep_count == MOST_SLEEPING) machine_broken("too many places to sleep");
    may_sleep[may_sleep_count++] = futex;
}

static void add_quiet(const void *address, size_t bytes, bool constant) {
    if (quiet_count == MOST_QUIET) machine_broken("too many quiet ranges");
    quiet[quiet_count].from = address;
    quiet[quiet_count].to = (const char *)address + bytes;
    quiet[quiet_count++].constant = constant;
}

void explore_constant(const void *address, size_t bytes) { add_quiet(address, bytes, true); }
void explore_quiet(const void *address, size_t bytes) { add_quiet(address, bytes, false); }

void explore_counter(const void *word, const void *users) {
    if (counter_count == MOST_COUNTERS) machine_broken("too many counters");
    counters[counter_count].word = (uint32_t *)(uintptr_t)word;
    counters[counter_count++].users = users;
}

/* ---- threads ---- */

/* A little below everything that the caller still needs. */
static __attribute__((noinline)) char *stack_here(void) { return __builtin_frame_address(0); }

static __attribute__((noinline)) void pause_thread(thread *t) {
    t->low = (char *)((uintptr_t)stack_here() & ~(uintptr_t)7);
    if (_setjmp(t->registers) == 0) _longjmp(machine_search_registers, 1);
}

static void thread_main(void) {
    ((void *(*)(void *))machine_entries[machine_current].entry)(machine_entries[machine_current].argument);
    thread *t = &machine_world.threads[machine_current];
    t->state = THREAD_ENDED;
    memset(&t->next, 0, sizeof(t->next));
    memset(t->registers, 0, sizeof(t->registers));
    t->low = machine_stacks[machine_current] + STACK_BYTES;
    _longjmp(machine_search_registers, 1);
}

/* On until it is about to do its next operation. */
static void resume(int32_t number) {
    static ucontext_t start;
    thread *t = &machine_world.threads[number];
    bool first = !t->low;
    exchange_locals(t);
    if (!first) { /* what earlier calls left below must not tell states apart */
        size_t room = (size_t)(t->low - machine_stacks[number]);
        memset(t->low - (room < 1024 ? room : 1024), 0, room < 1024 ? room : 1024);
    }
    int32_t outer = machine_current;
    machine_current = number;
    t->state = THREAD_READY;
    t->digest = 0;
    if (_setjmp(machine_search_registers) == 0) {
        if (!first) _longjmp(t->registers, 1);
        getcontext(&start);
        start.uc_stack.ss_sp = machine_stacks[number];
        start.uc_stack.ss_size = STACK_BYTES;
        makecontext(&start, thread_main, 0);
        setcontext(&start);
    }
    machine_current = outer;
    exchange_locals(&machine_world.threads[number]);
}

int32_t explore_thread(const char *name, void *(*entry)(void *), void *argument) {
    if (machine_world.thread_count == EXPLORE_THREADS) machine_broken("too many threads");
    if (machine_current >= 0) machine_broken("threads are made in prepare");
    int32_t number = machine_world.thread_count++;
    machine_entries[number].entry = (const void *)entry;
    machine_entries[number].argument = argument;
    machine_entries[number].name = name;
    resume(number);
    return number;
}

static uint64_t at_once(const operation *o) { /* in prepare and finish */
    thread nobody = {.state = THREAD_READY};
    uint64_t before = machine_perform(&nobody, o);
    machine_flush_all(&nobody);
    return before;
}

static bool others_run(void) {
    for (int32_t i = 0; i < machine_world.thread_count; i++) {
        if (i != machine_current && machine_world.threads[i].state == THREAD_READY) return true;
    }
    return false;
}

/* Not a point where others may run, because nothing that they do can make a difference to it; the
 * promise is checked. */
static bool is_quiet(const operation *o) {
    for (int32_t i = 0; i < quiet_count; i++) {
        if (o->address < quiet[i].from || o->address >= quiet[i].to) continue;
        bool commutes = o->kind == EXPLORE_LOAD || o->kind == EXPLORE_FUTEX_WAIT || (o->kind == EXPLORE_ADD && !quiet[i].constant);
        if (!commutes && (quiet[i].constant || others_run()))
            explore_fault("changes %s, which nobody may change now", machine_name_of(o->address));
        return true;
    }
    return false;
}

uint64_t explore_operation(explore_kind kind, int order, void *address, size_t size, uint64_t value, uint64_t expected) {
    operation o = {kind, order, address, size, value, expected};
    if (machine_current < 0) return at_once(&o);
    thread *t = &machine_world.threads[machine_current];
    t->next = o;
    t->result = 0;
    bool paused = !is_quiet(&o);
    if (!paused) t->result = machine_perform(t, &o);
    if (paused || t->state == THREAD_ASLEEP) pause_thread(t);
    return machine_world.threads[machine_current].result;
}

int32_t explore_current(void) { return machine_current; }

/* ---- steps ---- */

static int32_t count_of(int32_t set) { return __builtin_popcount((uint32_t)set); }

static bool can_run(const thread *t) {
    if (t->state != THREAD_READY) return false;
    if (t->next.kind == EXPLORE_LOCK) return machine_load(&t->next) == 0;
    if (t->next.kind != EXPLORE_JOIN) return true;
    const thread *other = &machine_world.threads[t->next.value];
    return other->state == THREAD_ENDED && other->pending_count == 0;
}

static bool preempts(int32_t number) { return number != machine_world.last && can_run(&machine_world.threads[machine_world.last]); }

/* One step, or one for each choice of the sleepers that a wake of fewer than all may wake. */
static int32_t run_steps(int32_t number, step *steps) {
    const operation *o = &machine_world.threads[number].next;
    const int32_t asleep = o->kind == EXPLORE_FUTEX_WAKE ? machine_sleepers_on(o->address) : 0;
    int32_t count = 0;
    steps[count] = (step){STEP_RUN, number, asleep};
    if ((uint64_t)count_of(asleep) <= o->value) return 1;
    for (int32_t set = 1; set <= asleep; set++) {
        if ((set & ~asleep) == 0 && (uint64_t)count_of(set) == o->value) steps[count++] = (step){STEP_RUN, number, set};
    }
    return count;
}

int32_t machine_steps(step steps[MAX_STEPS], int32_t *useful) {
    int32_t count = 0;
    for (int32_t i = 0; i < machine_world.thread_count; i++) {
        const thread *t = &machine_world.threads[i];
        if (can_run(t) && (machine_world.preemptions != 0 || !preempts(i))) count += run_steps(i, &steps[count]);
        if (t->state == THREAD_ASLEEP && (int64_t)t->next.value >= 0) steps[count++] = (step){STEP_TIMEOUT, i, 0};
        for (int32_t entry = 0; entry < t->pending_count; entry++) {
            if (machine_may_flush(t, entry)) steps[count++] = (step){STEP_FLUSH, i, entry};
        }
    }
    *useful = count;
    for (int32_t i = 0; i < machine_world.thread_count && machine_world.spurious > 0; i++) {
        if (machine_world.threads[i].state == THREAD_ASLEEP) steps[count++] = (step){STEP_SPURIOUS, i, 0};
    }
    return count;
}

/* A seq_cst store whose thread goes on with a seq_cst operation need not wait in the buffer: that
 * others run in between is the same as that this thread stores later. */
static bool comes_out_at_once(const thread *t, explore_kind done) {
    if (done != EXPLORE_STORE || t->pending_count != 1 || t->pending[0].store.order != __ATOMIC_SEQ_CST) return false;
    return t->state == THREAD_ENDED || t->next.order == __ATOMIC_SEQ_CST;
}

static void run(int32_t number) {
    thread *t = &machine_world.threads[number];
    if (machine_world.preemptions >= 0) {
        machine_world.preemptions -= preempts(number);
        machine_world.last = number;
    }
    operation o = t->next;
    t->digest = 0;
    t->result = machine_perform(t, &o);
    if (t->state == THREAD_READY) resume(number);
    if (comes_out_at_once(t, o.kind)) machine_flush(t, 0);
}

static void forget_counters(void) {
    for (int32_t i = 0; i < counter_count; i++) {
        if (*counters[i].users == 0) *counters[i].word = 0;
    }
}

void machine_step(const step *chosen) {
    thread *t = &machine_world.threads[chosen->thread];
    switch (chosen->kind) {
    case STEP_RUN:
        machine_wake_choice = chosen->entry;
        run(chosen->thread);
        machine_wake_choice = 0;
        break;
    case STEP_FLUSH:
        t->digest = 0;
        machine_flush(t, chosen->entry);
        break;
    case STEP_TIMEOUT:
        machine_world.now += (int64_t)t->next.value;
        t->result = (uint64_t)-1;
        resume(chosen->thread);
        break;
    case STEP_SPURIOUS:
        machine_world.spurious--;
        resume(chosen->thread);
        break;
    }
    /* Those that were woken go on to their next operation, which nobody can notice. */
    for (int32_t i = 0; i < machine_world.thread_count && !machine_fault_text[0]; i++) {
        if (machine_world.threads[i].state == THREAD_WOKEN) resume(i);
    }
    forget_counters();
}

void explore_drain(void) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t i = 0; i < machine_world.thread_count; i++) {
            while (can_run(&machine_world.threads[i])) {
                machine_step(&(step){STEP_RUN, i, 0});
                moved = true;
            }
        }
    }
}

static bool may_sleep_there(const thread *t) {
    for (int32_t i = 0; i < may_sleep_count; i++) {
        if (t->state == THREAD_ASLEEP && may_sleep[i] == t->next.address) return true;
    }
    return t->state == THREAD_ENDED;
}

void machine_look_at_end(void) {
    char text[400] = "";
    for (int32_t i = 0; i < machine_world.thread_count; i++) {
        const thread *t = &machine_world.threads[i];
        size_t used = strlen(text);
        if (!may_sleep_there(t))
            snprintf(text + used, sizeof(text) - used, " %s %s %s,", machine_entries[i].name,
                     t->state == THREAD_ASLEEP ? "sleeps on" : "waits for", machine_name_of(t->next.address));
    }
    if (text[0]) explore_fault("nobody can go on:%s and no wake-up is coming", text);
}
