/* Functions that libstdc++.a, the headers of this system's glibc and Xoe itself ask for, and that glibc 2.28 lacks.
 * Hidden, so that each library and program has its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

/* glibc 2.32. Always false is always right: reference counts are then atomic. */
char __libc_single_threaded = 0;

/* glibc 2.36, for std::random_device. */
uint32_t arc4random(void) {
  uint32_t value;
  while (getentropy(&value, sizeof value) != 0) {
  }
  return value;
}

/* glibc 2.30, for std::condition_variable::wait_for: glibc's own where it has it. Else the wait goes by the wall clock,
   as it did before; the caller looks at its own clock again. */
typedef int Clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
static Clockwait* clockwait_of_glibc;

__attribute__((constructor(101))) static void find_clockwait(void) {
  clockwait_of_glibc = (Clockwait*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  if (clockwait_of_glibc) return clockwait_of_glibc(condition, mutex, clock, until);
  const long second = 1000000000;
  struct timespec now, wall;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  struct timespec end = {wall.tv_sec + (until->tv_sec - now.tv_sec), wall.tv_nsec + (until->tv_nsec - now.tv_nsec)};
  if (end.tv_nsec < 0) {
    end.tv_nsec += second;
    --end.tv_sec;
  } else if (end.tv_nsec >= second) {
    end.tv_nsec -= second;
    ++end.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &end);
}

/* glibc 2.34, for the pool's process that gives a lease back. Linux has it from 5.9 on; before, files are closed one by one. */
int close_range(unsigned int first, unsigned int last, int flags) {
  if (syscall(SYS_close_range, first, last, flags) == 0) return 0;
  if (errno != ENOSYS || flags != 0) return -1;
  const long most = sysconf(_SC_OPEN_MAX);
  for (unsigned int file = first; file <= last && file < most; ++file) close((int)file);
  return 0;
}

/* glibc 2.32, for messages on how a process ended. */
static const char* const signal_names[] = {
    [SIGABRT] = "ABRT", [SIGALRM] = "ALRM",     [SIGBUS] = "BUS",       [SIGCHLD] = "CHLD",   [SIGCONT] = "CONT",
    [SIGFPE] = "FPE",   [SIGHUP] = "HUP",       [SIGILL] = "ILL",       [SIGINT] = "INT",     [SIGKILL] = "KILL",
    [SIGPIPE] = "PIPE", [SIGPOLL] = "POLL",     [SIGPROF] = "PROF",     [SIGPWR] = "PWR",     [SIGQUIT] = "QUIT",
    [SIGSEGV] = "SEGV", [SIGSTKFLT] = "STKFLT", [SIGSTOP] = "STOP",     [SIGSYS] = "SYS",     [SIGTERM] = "TERM",
    [SIGTRAP] = "TRAP", [SIGTSTP] = "TSTP",     [SIGTTIN] = "TTIN",     [SIGTTOU] = "TTOU",   [SIGURG] = "URG",
    [SIGUSR1] = "USR1", [SIGUSR2] = "USR2",     [SIGVTALRM] = "VTALRM", [SIGWINCH] = "WINCH", [SIGXCPU] = "XCPU",
    [SIGXFSZ] = "XFSZ"};

const char* sigabbrev_np(int number) {
  const int known = sizeof signal_names / sizeof signal_names[0];
  return number > 0 && number < known ? signal_names[number] : NULL;
}

const char* sigdescr_np(int number) { return sigabbrev_np(number) ? strsignal(number) : NULL; }
