/* What R can call by .Call(). */
#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#include "xoe_r.h"

#define XOE_ROUTINE(name, count) \
  { "C_" #name, (DL_FUNC)&xoe_r_##name, count }

static const R_CallMethodDef kRoutines[] = {
    XOE_ROUTINE(init, 1),      XOE_ROUTINE(shutdown, 0),       XOE_ROUTINE(is_initialized, 0),
    XOE_ROUTINE(topology, 0),  XOE_ROUTINE(version, 0),        XOE_ROUTINE(allreduce, 4),
    XOE_ROUTINE(broadcast, 3), XOE_ROUTINE(reducescatter, 4),  XOE_ROUTINE(broadcast_bytes, 3),
    XOE_ROUTINE(allgather, 4), XOE_ROUTINE(alltoall, 3),       XOE_ROUTINE(barrier, 1),
    XOE_ROUTINE(join, 0),      XOE_ROUTINE(refuse, 3),         XOE_ROUTINE(submitted, 0),
    XOE_ROUTINE(signed, 2),    XOE_ROUTINE(data_of_signed, 4), XOE_ROUTINE(cut, 2),
    XOE_ROUTINE(checksum, 1),  XOE_ROUTINE(pending, 0),        {NULL, NULL, 0}};

attribute_visible void R_init_xoe(DllInfo* dll) {
  xoe_prepare_operations();
  R_registerRoutines(dll, NULL, kRoutines, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
}
