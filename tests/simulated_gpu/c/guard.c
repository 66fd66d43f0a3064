/* Runs one call under a fault handler: an access to fenced memory returns its address instead of ending the process. */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static __thread sigjmp_buf *net;
static __thread void *fault_address;
static struct sigaction old_segv, old_bus;

static void caught(int number, siginfo_t *info, void *context)
{
    struct sigaction *old = number == SIGBUS ? &old_bus : &old_segv;
    if (net) {
        sigjmp_buf *back = net;
        net = NULL;
        fault_address = info->si_addr;
        siglongjmp(*back, 1);
    }
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
    else
        signal(number, SIG_DFL); /* happens again when the handler returns, and ends the process as it should */
}

/* One call at a time (the caller holds a lock). Returns 1 and the faulting address, or 0 if the call returned. */
int simulated_guarded(void (*call)(void *), void *argument, void **address)
{
    sigjmp_buf back;
    struct sigaction action = {0};
    volatile int faulted = 0;
    action.sa_sigaction = caught;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
    if (sigsetjmp(back, 1) == 0) {
        net = &back;
        call(argument);
    } else {
        faulted = 1;
        *address = fault_address;
    }
    net = NULL;
    sigaction(SIGSEGV, &old_segv, NULL);
    sigaction(SIGBUS, &old_bus, NULL);
    return faulted;
}
