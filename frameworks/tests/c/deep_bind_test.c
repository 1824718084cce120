/* A program that is not position-independent, like Debian's Python, opens the library with RTLD_DEEPBIND, as jaxlib
   does. The library must still see the launcher's variables: without them each rank was a world of its own, and sums
   were wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "xoe/c.h"

static void* function(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return found;
}

int main(int count, char** arguments) {
  if (count != 2 || environ == NULL) return 2; /* naming environ gives this program its own copy of it */
  void* const library = dlopen(arguments[1], RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  xoe_status (*init)(const xoe_options*, xoe_engine**);
  xoe_status (*topology_of)(const xoe_engine*, xoe_topology*);
  void (*shut_down)(xoe_engine*);
  *(void**)&init = function(library, "xoe_init");
  *(void**)&topology_of = function(library, "xoe_topology_of");
  *(void**)&shut_down = function(library, "xoe_shutdown");
  xoe_engine* engine = NULL;
  xoe_topology at = {0};
  if (init(NULL, &engine) != XOE_OK || topology_of(engine, &at) != XOE_OK) return 1;
  printf("rank %d of %d\n", at.rank, at.size);
  shut_down(engine);
  return at.size == 2 && at.rank == atoi(getenv("XOE_RANK")) ? 0 : 1;
}
