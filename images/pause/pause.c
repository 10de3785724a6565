/* The process that holds a pod's namespaces: it ends when told to and reaps what the pod's processes leave behind. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
    (void)number;
    _exit(0);
}

static void reap(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int main(void) {
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
    signal(SIGTERM, end);
    signal(SIGINT, end);
    sigaction(SIGCHLD, &on_child, NULL);
    for (;;)
        pause();
}
