/* Parts of the kernel that few programs use. */
#include "corner.h"
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* A ring of io_uring with no library: its three mappings. */
struct ring {
    int fd;
    struct io_uring_params setup;
    char *submissions, *completions;
    struct io_uring_sqe *entries;
};

#define WORD(memory, offset) ((uint32_t *)((memory) + (offset)))

static struct ring make_ring(void)
{
    struct ring ring = {0};
    ring.fd = (int)syscall(SYS_io_uring_setup, 32, &ring.setup);
    if (ring.fd < 0)
        skipped("no io_uring");
    const struct io_uring_params *p = &ring.setup;
    const int flags = MAP_SHARED | MAP_POPULATE, protection = PROT_READ | PROT_WRITE;
    ring.submissions = mmap(NULL, p->sq_off.array + p->sq_entries * 4, protection, flags, ring.fd, IORING_OFF_SQ_RING);
    ring.completions = mmap(NULL, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe), protection, flags,
                            ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, p->sq_entries * sizeof *ring.entries, protection, flags, ring.fd, IORING_OFF_SQES);
    CHECK(ring.submissions != MAP_FAILED && ring.completions != MAP_FAILED && ring.entries != MAP_FAILED);
    return ring;
}

static void submit(struct ring *ring, struct io_uring_sqe entry)
{
    uint32_t *tail = WORD(ring->submissions, ring->setup.sq_off.tail);
    const uint32_t index = *tail & *WORD(ring->submissions, ring->setup.sq_off.ring_mask);
    ring->entries[index] = entry;
    WORD(ring->submissions, ring->setup.sq_off.array)[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

struct completed {
    uint64_t user_data;
    int32_t res;
};

static struct completed completion(struct ring *ring)
{
    uint32_t *head = WORD(ring->completions, ring->setup.cq_off.head);
    const uint32_t mask = *WORD(ring->completions, ring->setup.cq_off.ring_mask);
    const struct io_uring_cqe *all = (void *)(ring->completions + ring->setup.cq_off.cqes);
    CHECK(__atomic_load_n(WORD(ring->completions, ring->setup.cq_off.tail), __ATOMIC_ACQUIRE) != *head);
    const struct completed found = {all[*head & mask].user_data, all[*head & mask].res};
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return found;
}

static void io_ring(void)
{
    static char buffers[16][4096];
    struct ring ring = make_ring();
    const int fd = open("/proc/self/exe", O_RDONLY);
    const struct __kernel_timespec moment = {0, 1000000};
    long wrong = 0, first[16];
    for (int i = 0; i < 16; i++)
        CHECK(pread(fd, &first[i], sizeof first[i], i * 512) == sizeof first[i]);
    while (going_on()) {
        for (uint64_t i = 0; i < 16; i++)
            submit(&ring, (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = fd, .addr = (uint64_t)buffers[i],
                                                .len = 512, .off = i * 512, .user_data = i});
        CHECK(syscall(SYS_io_uring_enter, ring.fd, 16, 16, IORING_ENTER_GETEVENTS, NULL, 0) == 16);
        for (int i = 0; i < 16; i++) {
            const struct completed done_ = completion(&ring);
            wrong += done_.res != 512 || memcmp(buffers[done_.user_data], &first[done_.user_data], sizeof *first);
        }
        other();
        submit(&ring, (struct io_uring_sqe){.opcode = IORING_OP_TIMEOUT, .addr = (uint64_t)&moment, .len = 1});
        CHECK(syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
        wrong += completion(&ring).res != -ETIME;
    }
    printf("%ld wrong\n", wrong);
    close(fd);
    close(ring.fd);
}

#define PAGES 200
static int fault_fd;

/* Fills pages with their own number. */
static void *fills(void *memory)
{
    static char page[4096] __attribute__((aligned(4096)));
    long filled = 0;
    while (filled < PAGES) {
        struct uffd_msg message;
        if (read(fault_fd, &message, sizeof message) != sizeof message || message.event != UFFD_EVENT_PAGEFAULT)
            break;
        const uint64_t at = message.arg.pagefault.address & ~4095ull;
        other();
        memset(page, (int)((at - (uint64_t)memory) / 4096 % 251), sizeof page);
        struct uffdio_copy copy = {.dst = at, .src = (uint64_t)page, .len = 4096};
        CHECK(ioctl(fault_fd, UFFDIO_COPY, &copy) == 0 && copy.copy == 4096);
        filled++;
    }
    return (void *)filled;
}

static void faults_of_users(void)
{
    pthread_t thread;
    void *filled = NULL;
    long wrong = 0;
    fault_fd = (int)syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_CLOEXEC);
    if (fault_fd < 0)
        skipped("no userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(ioctl(fault_fd, UFFDIO_API, &api) == 0);
    unsigned char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {{(uint64_t)memory, PAGES * 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    CHECK(ioctl(fault_fd, UFFDIO_REGISTER, &range) == 0);
    CHECK(pthread_create(&thread, NULL, fills, memory) == 0);
    for (int i = 0; i < PAGES; i++) {
        wrong += *(volatile unsigned char *)&memory[i * 4096 + 17] != i % 251;
        if (i % 4 == 0)
            other();
    }
    CHECK(pthread_join(thread, &filled) == 0);
    printf("%ld faults, %ld wrong\n", (long)filled, wrong);
    close(fault_fd);
}

static void secret_memory(void)
{
#ifdef SYS_memfd_secret
    const int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
#else
    const int fd = (int)syscall(447, O_CLOEXEC);
#endif
    if (fd < 0)
        skipped("no memfd_secret");
    CHECK(ftruncate(fd, 16384) == 0);
    uint64_t *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    while (going_on()) {
        for (int i = 0; i < 2048; i++)
            memory[i] = memory[i] * 3 + 1;
        other();
    }
    /* No system call reads it. */
    const int null = open("/proc/self/mem", O_RDONLY);
    uint64_t word;
    CHECK(pread(null, &word, sizeof word, (off_t)(uintptr_t)memory) == -1);
    printf("refused with %d\n", errno);
    close(null);
    close(fd);
}

static void names(void)
{
    char name[17] = {0}, text[32] = {0};
    while (going_on()) {
        CHECK(prctl(PR_SET_NAME, "a name of 15 ch") == 0);
        other();
        CHECK(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "a name of 15 ch"));
        FILE *file = fopen("/proc/self/comm", "r");
        CHECK(file && fgets(text, sizeof text, file) && !strcmp(text, "a name of 15 ch\n") && fclose(file) == 0);
    }
}

/* Other processes of the user may no more look into this one. */
static void not_dumpable(void)
{
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    meanwhile(0.2);
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    const pid_t child = fork();
    if (child == 0) {
        meanwhile(0.1);
        _exit(prctl(PR_GET_DUMPABLE));
    }
    CHECK(ended(child) == 0);
}

/* A pause sleeps with a slack of its own. */
static void slack(void)
{
    CHECK(prctl(PR_SET_TIMERSLACK, 123456) == 0);
    while (going_on()) {
        other();
        usleep(100);
        CHECK(prctl(PR_GET_TIMERSLACK) == 123456);
    }
    const pid_t child = fork();
    if (child == 0)
        _exit(prctl(PR_GET_TIMERSLACK) == 123456 ? 4 : 1);
    CHECK(ended(child) == 4);
    CHECK(prctl(PR_SET_TIMERSLACK, 0) == 0);
    printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
}

/* Orphans become our children; one asks for a signal when its parent ends. */
static void orphans(void)
{
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    while (going_on()) {
        int adopted = 0, ends[2], gate[2];
        char byte;
        CHECK(pipe(ends) == 0 && pipe(gate) == 0);
        const pid_t child = fork();
        if (child == 0) {
            close(gate[1]);
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGTERM);
                close(ends[1]); /* says so */
                for (;;)
                    pause();
            }
            close(ends[1]);
            _exit(read(gate[0], &byte, 1) == 0 ? 3 : 4);
        }
        close(ends[1]);
        CHECK(read(ends[0], &byte, 1) == 0);
        other();
        close(gate[1]); /* now the parent ends */
        CHECK(ended(child) == 3);
        CHECK(waitpid(-1, &adopted, 0) > 0 && WIFSIGNALED(adopted) && WTERMSIG(adopted) == SIGTERM);
        CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        close(ends[0]);
        close(gate[0]);
    }
}

/* The place where the kernel finds the program's arguments. */
static void arguments_elsewhere(void)
{
    static char text[] = "another\0command";
    char found[sizeof text] = {0};
    if (prctl(PR_SET_MM, PR_SET_MM_ARG_START, text, 0, 0) || prctl(PR_SET_MM, PR_SET_MM_ARG_END, text + sizeof text, 0, 0))
        skipped("PR_SET_MM is refused");
    meanwhile(0.2);
    FILE *file = fopen("/proc/self/cmdline", "r");
    CHECK(file && fread(found, 1, sizeof found, file) == sizeof found && fclose(file) == 0);
    CHECK(!memcmp(found, text, sizeof text));
}

static uint32_t finished;

__attribute__((noinline, unused)) static void in_raw_thread(long *sum)
{
    uint64_t x = 88172645463325252u;
    for (long i = 0; i < 2000000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    *sum = (long)x;
    __atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
}

long raw_clone3(struct clone_args *arguments, void (*run)(long *), long *value);
/* The child has a stack of its own with nothing on it, so no compiled code may come between. */
__asm__("raw_clone3:\n"
        "    mov %rdx, %r8\n"
        "    mov %rsi, %r9\n"
        "    mov $88, %esi\n"
        "    mov $435, %eax\n"
        "    syscall\n"
        "    test %eax, %eax\n"
        "    jnz 1f\n"
        "    xor %ebp, %ebp\n"
        "    mov %r8, %rdi\n"
        "    call *%r9\n"
        "    xor %edi, %edi\n"
        "    mov $60, %eax\n"
        "    syscall\n"
        "1:  ret\n");

/* Threads of which no library knows. */
static void raw_threads(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    long sum = 0, expected = 0;
    while (going_on()) {
        uint32_t alive = 1;
        struct clone_args arguments = {
            .flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
            .child_tid = (uint64_t)&alive,
            .stack = (uint64_t)stack,
            .stack_size = sizeof stack,
        };
        finished = 0;
        CHECK(raw_clone3(&arguments, in_raw_thread, &sum) > 0);
        while (__atomic_load_n(&alive, __ATOMIC_ACQUIRE))
            syscall(SYS_futex, &alive, FUTEX_WAIT, 1, NULL, NULL, 0);
        CHECK(finished == 1 && (expected == 0 || sum == expected));
        expected = sum;
        other();
    }
}

int main(int argc, char **argv)
{
    static const struct corner corners[] = {
        {"io_uring", io_ring, 0},         {"userfaultfd", faults_of_users, 0},
        {"secret", secret_memory, 0},     {"name", names, 0},
        {"dumpable", not_dumpable, 0},    {"slack", slack, 0},
        {"orphans", orphans, 0},          {"arguments", arguments_elsewhere, 0},
        {"raw_threads", raw_threads, 0},  {NULL, NULL, 0},
    };
    return run_corner(argc, argv, corners);
}
