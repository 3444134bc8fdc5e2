/* errno through interposed calls, while delays and samples go on. */
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

/* A connection to ourselves, from its beginning to its end. */
static void sockets(void)
{
    char byte = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *const name = (struct sockaddr *)&address;
    socklen_t length = sizeof address;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1};
    const int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    const int epoll = epoll_create1(0);
    errno = 0;
    CHECK(shutdown(epoll, SHUT_RDWR) == -1 && errno == ENOTSOCK);
    errno = 0;
    CHECK(accept(client, NULL, NULL) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(connect(client, NULL, 0) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_MOD, listener, &event) == -1 && errno == ENOENT);
    errno = 0;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, NULL) == -1 && errno == EFAULT);
    /* Nothing is there: the kernel says so. */
    void *volatile nowhere = (void *)64;
    errno = 0;
    CHECK(connect(client, nowhere, sizeof address) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(connect(client, name, 1 << 30) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, nowhere) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(poll(nowhere, 1, 0) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(poll(nowhere, 1, 5) == -1 && errno == EFAULT);
    errno = 77;
    CHECK(listen(listener, 1) == 0 && getsockname(listener, name, &length) == 0 && errno == 77);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0 && errno == 77);
    CHECK(connect(client, name, length) == 0 && errno == 77);
    CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.u64 == 1 && errno == 77);
    const int server = accept(listener, NULL, NULL);
    CHECK(server >= 0 && errno == 77);
    CHECK(write(client, &byte, 1) == 1 && read(server, &byte, 1) == 1 && errno == 77);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, listener, NULL) == 0 && errno == 77);
    CHECK(epoll_wait(epoll, &event, 1, 1) == 0 && errno == 77);
    CHECK(syscall(SYS_write, server, &byte, 1) == 1 && syscall(SYS_read, client, &byte, 1) == 1 && errno == 77);
    CHECK(shutdown(client, SHUT_WR) == 0 && read(server, &byte, 1) == 0 && errno == 77);
    CHECK(close(client) == 0 && close(server) == 0 && close(listener) == 0 && close(epoll) == 0 && errno == 77);
    errno = 0;
    CHECK(close(epoll) == -1 && errno == EBADF);
}

int main(void)
{
    sem_t semaphore;
    char byte;
    uint32_t word = 1;
    const double end = now() + 1.2;
    sem_init(&semaphore, 0, 0);
    start_background();
    while (now() < end && failures < 10) {
        errno = 77;
        other();
        CHECK(errno == 77);
        CHECK(pthread_mutex_lock(&mutex) == 0 && errno == 77);
        CHECK(pthread_mutex_trylock(&mutex) == EBUSY && errno == 77);
        CHECK(pthread_cond_signal(&condition) == 0 && errno == 77);
        CHECK(pthread_cond_broadcast(&condition) == 0 && errno == 77);
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);
        CHECK(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT && errno == 77);
        CHECK(pthread_mutex_unlock(&mutex) == 0 && errno == 77);
        CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0 && errno == 77);
        CHECK(sem_post(&semaphore) == 0 && sem_wait(&semaphore) == 0 && errno == 77);
        CHECK(kill(getpid(), 0) == 0 && errno == 77);
        CHECK(pthread_kill(pthread_self(), 0) == 0 && errno == 77);
        CHECK(write(STDERR_FILENO, "", 0) == 0 && errno == 77);
        CHECK(usleep(100) == 0 && errno == 77);
        CHECK(poll(NULL, 0, 0) == 0 && errno == 77);
        CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0 && errno == 77);

        sockets();
        errno = 0;
        CHECK(sem_trywait(&semaphore) == -1 && errno == EAGAIN);
        soon = in_ms(CLOCK_REALTIME, 1);
        errno = 0;
        CHECK(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT);
        errno = 0;
        CHECK(read(-1, &byte, 1) == -1 && errno == EBADF);
        errno = 0;
        CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        errno = 0;
        CHECK(kill(getpid(), 1000) == -1 && errno == EINVAL);
        errno = 0;
        CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0) == -1 && errno == EAGAIN);
        struct timespec moment = {0, 1000000};
        errno = 0;
        CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &moment, NULL, 0) == -1 && errno == ETIMEDOUT);
    }
    stop_background();
    return done();
}
