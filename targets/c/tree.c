/*
 * tree - a tree of processes: the first one only starts the others, which are programs of their own or its forked children.
 *
 *   kind=0  three executed stages, A (2 ms), B (3 ms) and C (1 ms), with pipes of one page between them, as in `a | b | c`
 *   kind=1  forked workers: a pipe hands them requests, each is A (2 ms), and B (2 ms) under a mutex that all of them share
 *   kind=2  a master asks an executed worker over loopback TCP: M (2 ms) in the master, W (3 ms) in the worker, one after the other
 *   kind=3  the same over a pair of unix sockets
 *   kind=4  the same by two System V semaphores
 *   kind=5  a build: two processes at a time, each executed anew for J (4 ms) and then K (2 ms) of work; the first process waits for their ends
 *   kind=6  as kind=3, but the worker ends after 50 requests and another one is executed
 *
 * Answer: of a round of kind 2, 3, 4 and 6 each region is worth its share; of kind 0 B is worth its share until the CPUs or A limit it; of kind 1 two workers have
 * 2 ms each of A in parallel, and B is the lock, which is never idle when A takes less; of kind 5 both are worth their share of a process.
 *
 *   cc -O2 -g -fno-omit-frame-pointer -pthread -I../../include tree.c -o tree
 */
#include "target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "message.h"

enum { PAGE = 4096, LIFE = 50 };

static long a, b, c, m, w, j, k;
static char **own;
static int count;

REGION static void A(void) { WORK(a); }
REGION static void B(void) { WORK(b); }
REGION static void C(void) { WORK(c); }
REGION static void M(void) { WORK(m); }
REGION static void W(void) { WORK(w); }
REGION static void J(void) { WORK(j); }
REGION static void K(void) { WORK(k); }

static void failed(const char *what)
{
    perror(what);
    exit(1);
}

static void full(ssize_t moved, size_t wanted)
{
    if (moved < 0)
        failed("moving a message");
    if ((size_t)moved != wanted)
        exit(0); /* the other side has ended */
}

/* Executes this program again, as this part of the tree, with two descriptors. */
static pid_t execute(int part, int in, int out)
{
    const pid_t child = fork();
    if (child < 0)
        failed("fork");
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char as[32], input[32], output[32];
    snprintf(as, sizeof as, "part=%d", part);
    snprintf(input, sizeof input, "in=%d", in);
    snprintf(output, sizeof output, "out=%d", out);
    char **words = calloc((size_t)count + 4, sizeof *words);
    memcpy(words, own, (size_t)count * sizeof *words);
    words[count] = as;
    words[count + 1] = input;
    words[count + 2] = output;
    execv("/proc/self/exe", words);
    failed("execv");
    return 0;
}

/* Pipes of one page. */
static void piped(int ends[2])
{
    DO(pipe(ends));
    DO(fcntl(ends[1], F_SETPIPE_SZ, PAGE));
}

static void stage(int part, int in, int out)
{
    static char item[PAGE];
    while (part < 3 || !over()) {
        for (size_t got = 0; part > 1 && got < PAGE;) {
            const ssize_t more = read(in, item + got, PAGE - got);
            if (more <= 0)
                exit(0);
            got += (size_t)more;
        }
        if (part == 1)
            A();
        else if (part == 2)
            B();
        else
            C();
        if (part < 3) {
            full(write(out, item, PAGE), PAGE);
        } else {
            WHATIF_PROGRESS_NAMED("round");
            visited();
        }
    }
    finish();
}

static void pipeline(void)
{
    int first[2], second[2];
    piped(first);
    piped(second);
    execute(1, 0, first[1]);
    execute(2, first[0], second[1]);
    const pid_t last = execute(3, second[0], 0);
    close(first[0]), close(first[1]), close(second[0]), close(second[1]);
    waitpid(last, NULL, 0);
    exit(0);
}

static void forked(void)
{
    pthread_mutex_t *lock =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(lock, &attributes);
    int requests[2], answers[2];
    piped(requests);
    DO(pipe(answers));
    for (int worker = 0; worker < 2; worker++) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            char request;
            full(read(requests[0], &request, 1), 1);
            A();
            pthread_mutex_lock(lock);
            B();
            pthread_mutex_unlock(lock);
            full(write(answers[1], &request, 1), 1);
        }
    }
    char request = 0;
    full(write(requests[1], &request, 1), 1);
    while (!over()) {
        full(write(requests[1], &request, 1), 1);
        full(read(answers[0], &request, 1), 1);
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}

static void ask(int fd)
{
    char message = 0;
    full(write(fd, &message, 1), 1);
    full(read(fd, &message, 1), 1);
}

static void answer(int fd, int rounds)
{
    char message;
    for (int round = 0; rounds == 0 || round < rounds; round++) {
        full(read(fd, &message, 1), 1);
        W();
        full(write(fd, &message, 1), 1);
    }
    exit(0);
}

static void change(int semaphores, unsigned short which, short by)
{
    struct sembuf operation = {which, by, 0};
    DO(semop(semaphores, &operation, 1));
}

static int listener(int *port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    if (bind(fd, (struct sockaddr *)&place, length) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&place, &length) != 0)
        failed("listening");
    *port = ntohs(place.sin_port);
    return fd;
}

static void without_delay(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int connected(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&place, sizeof place) != 0)
        failed("connect");
    without_delay(fd);
    return fd;
}

static void master(int kind)
{
    int pair[2] = {-1, -1}, semaphores = -1;
    pid_t worker = 0;
    if (kind == 2) {
        int port;
        const int listening = listener(&port);
        worker = execute(2, port, 0);
        pair[0] = accept(listening, NULL, NULL);
        without_delay(pair[0]);
    } else if (kind == 4) {
        semaphores = semget(IPC_PRIVATE, 2, 0600);
        if (semaphores < 0)
            failed("semget");
        worker = execute(4, semaphores, 0);
    }
    for (int round = 0; !over(); round++) {
        if (kind == 3 || kind == 6) {
            if (round == 0 || (kind == 6 && round % LIFE == 0)) {
                if (round > 0) {
                    waitpid(worker, NULL, 0);
                    close(pair[0]);
                }
                DO(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
                DO(fcntl(pair[0], F_SETFD, FD_CLOEXEC));
                worker = execute(kind, pair[1], 0);
                close(pair[1]);
            }
        }
        M();
        if (kind == 4) {
            change(semaphores, 0, 1);
            change(semaphores, 1, -1);
        } else {
            ask(pair[0]);
        }
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    kill(worker, SIGKILL);
    if (kind == 4)
        semctl(semaphores, 0, IPC_RMID);
    finish();
}

static void build(void)
{
    execute(5, 0, 0);
    while (!over()) {
        execute(5, 0, 0);
        if (wait(NULL) < 0)
            failed("wait");
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    own = argv;
    count = argc;
    const int kind = (int)argument("kind", 0), part = (int)argument("part", 0);
    const int in = (int)argument("in", 0), out = (int)argument("out", 0);
    a = iterations("A", 2);
    b = iterations("B", kind == 1 ? 2 : 3);
    c = iterations("C", 1);
    m = iterations("M", 2);
    w = iterations("W", 3);
    j = iterations("J", 4);
    k = iterations("K", 2);
    start("round");
    switch (kind) {
    case 0:
        if (part > 0)
            stage(part, in, out);
        pipeline();
        break;
    case 1:
        forked();
        break;
    case 5:
        if (part == 0)
            build();
        J();
        K();
        break;
    default:
        if (part == 0)
            master(kind);
        if (part == 4)
            for (;;) {
                change(in, 0, -1);
                W();
                change(in, 1, 1);
            }
        answer(part == 2 ? connected(in) : in, kind == 6 ? LIFE : 0);
    }
    return 0;
}
