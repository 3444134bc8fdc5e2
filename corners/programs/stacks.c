/* Stacks: as small as they may be, elsewhere, full, and many. */
#include "corner.h"
#include <semaphore.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *on_little(void *unused)
{
    volatile char used[2048];
    memset((void *)used, 1, sizeof used);
    for (int i = 0; i < 40; i++) {
        other();
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        usleep(100);
    }
    CHECK(used[5] == 1);
    return unused;
}

/* The smallest stacks that there are. */
static void smallest(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    while (going_on()) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], &attributes, on_little, NULL) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static ucontext_t outside, fibers[16];
static long switches, expected;

static void fiber(int number)
{
    for (;;) {
        other();
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        switches++;
        swapcontext(&fibers[number], &outside);
    }
}

/* Fibers on stacks of `second_argument` bytes, and what lies beneath them is not there. */
static void fibers_on_pages(void)
{
    const size_t size = (size_t)second_argument;
    for (int i = 0; i < 16; i++) {
        char *stack = mmap(NULL, size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(stack != MAP_FAILED && mprotect(stack + 4096, size, PROT_READ | PROT_WRITE) == 0);
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stack + 4096;
        fibers[i].uc_stack.ss_size = size;
        makecontext(&fibers[i], (void (*)(void))fiber, 1, i);
    }
    for (; going_on(); expected += 16)
        for (int i = 0; i < 16; i++)
            swapcontext(&outside, &fibers[i]);
    CHECK(switches == expected);
}

static int handled, elsewhere;

static void on_alternate(int signal, siginfo_t *info, void *context)
{
    stack_t now_;
    (void)signal, (void)info, (void)context;
    sigaltstack(NULL, &now_);
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    other(); /* long enough for samples */
    if (!(now_.ss_flags & SS_ONSTACK))
        __atomic_fetch_add(&elsewhere, 1, __ATOMIC_RELAXED);
}

static void *handles_on_alternate(void *unused)
{
    const size_t size = getauxval(AT_MINSIGSTKSZ) + (size_t)second_argument, around = 8192;
    unsigned char *memory = memset(malloc(size + 2 * around), 0xaa, size + 2 * around);
    const stack_t stack = {.ss_sp = memory + around, .ss_size = size};
    stack_t found;
    CHECK(sigaltstack(NULL, &found) == 0 && found.ss_flags == SS_DISABLE);
    CHECK(sigaltstack(&stack, NULL) == 0);
    for (int i = 0; i < 100; i++)
        CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
    CHECK(sigaltstack(NULL, &found) == 0 && found.ss_sp == stack.ss_sp && found.ss_size == size && found.ss_flags == 0);
    for (size_t i = 0; i < around; i++)
        CHECK(memory[i] == 0xaa && memory[around + size + i] == 0xaa);
    return unused;
}

/* Every thread's handler runs on its alternate stack, which is `second_argument` larger than the smallest, and nothing is written around it. */
static void alternate(void)
{
    struct sigaction action = {.sa_sigaction = on_alternate, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    pthread_t threads[8];
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, handles_on_alternate, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("handled %d, %d elsewhere\n", handled, elsewhere);
}

__attribute__((noinline)) static void fills(size_t size)
{
    volatile char room[size];
    memset((void *)room, 1, size);
    other();
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0 && sigprocmask(SIG_UNBLOCK, &mask, NULL) == 0);
    CHECK(room[size / 2] == 1);
}

static void full_handler(int signal)
{
    (void)signal;
    fills((size_t)second_argument);
    handled++;
}

/* A handler that uses nearly all of its alternate stack, and changes its mask there. */
static void full(void)
{
    const size_t size = getauxval(AT_MINSIGSTKSZ) + (size_t)second_argument + 2048, page = 4096;
    const size_t whole = (size + page - 1) / page * page;
    char *memory = mmap(NULL, whole + 16 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mprotect(memory + 16 * page, whole, PROT_READ | PROT_WRITE) == 0);
    const stack_t stack = {.ss_sp = memory + 16 * page, .ss_size = whole};
    struct sigaction action = {.sa_handler = full_handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        raise(SIGUSR1);
        other();
    }
    printf("handled %d\n", handled);
}

static sigjmp_buf recovery;

static void recover(int signal)
{
    (void)signal;
    siglongjmp(recovery, 1);
}

__attribute__((noinline)) static long endless(long depth)
{
    volatile char frame[200];
    frame[depth % 200] = 1;
    if (depth % 64 == 0)
        STEPS(1000);
    return depth < 0 ? 0 : endless(depth + 1) + frame[depth % 200];
}

static void *overflows(void *caught)
{
    const stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    CHECK(sigaltstack(&stack, NULL) == 0);
    if (sigsetjmp(recovery, 1) == 0)
        endless(1);
    ++*(int *)caught;
    return NULL;
}

/* Recursion without an end, survived on another stack. */
static void overflow(void)
{
    struct sigaction action = {.sa_handler = recover, .sa_flags = SA_ONSTACK};
    pthread_attr_t attributes;
    int caught = 0, tried = 0;
    sigaction(SIGSEGV, &action, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    while (going_on()) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, overflows, &caught) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(caught == ++tried);
    }
}

static sem_t gate;

static void *waits_at_gate(void *value)
{
    sem_wait(&gate);
    return value;
}

/* `second_argument` threads at once. */
static void crowd(void)
{
    pthread_t *threads = calloc((size_t)second_argument, sizeof *threads);
    pthread_attr_t attributes;
    long sum = 0;
    int number = 0;
    sem_init(&gate, 0, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 32768);
    while (number < second_argument && !pthread_create(&threads[number], &attributes, waits_at_gate, (void *)1))
        number++;
    for (int i = 0; i < number; i++)
        sem_post(&gate);
    for (int i = 0; i < number; i++) {
        void *value = NULL;
        CHECK(pthread_join(threads[i], &value) == 0);
        sum += (long)value;
    }
    printf("%d threads, %ld came back\n", number, sum);
}

static void *nothing(void *value)
{
    return value;
}

static void *little(void *value)
{
    other();
    return value;
}

/* One after another, most of them with nothing to do. */
static void procession(void)
{
    for (long i = 0; i < second_argument; i++) {
        pthread_t thread;
        void *value = NULL;
        CHECK(pthread_create(&thread, NULL, i % 50 ? nothing : little, (void *)i) == 0);
        CHECK(pthread_join(thread, &value) == 0 && value == (void *)i);
    }
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"smallest", smallest, 0},   {"fibers", fibers_on_pages, 0}, {"alternate", alternate, 0},
        {"full", full, 0},
        {"overflow", overflow, 0},   {"crowd", crowd, 0},            {"procession", procession, 0},
        {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
