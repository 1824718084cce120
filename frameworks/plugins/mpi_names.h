// The names that a library of MPItrampoline's interface has (MPI ABI 2.9): jaxlib ends the process where one is
// missing. The functions that XLA calls are in mpi.cc; the others answer with an error that names them. Source:
// MPItrampoline 5.3.1, mpiabi.
#pragma once

// clang-format off
// NOLINTBEGIN(cppcoreguidelines-macro-usage)

// Constants are variables of the size of a pointer.
#define XOE_MPI_CONSTANTS(X) \
  X(2DOUBLE_PRECISION) X(2INT) X(2INTEGER) X(2REAL) X(AINT) X(ANY_SOURCE) X(ANY_TAG) X(APPNUM) X(ARGVS_NULL) \
  X(ARGV_NULL) X(BAND) X(BOR) X(BOTTOM) X(BSEND_OVERHEAD) X(BXOR) X(BYTE) X(CART) X(CHAR) X(CHARACTER) \
  X(COMBINER_CONTIGUOUS) X(COMBINER_DARRAY) X(COMBINER_DUP) X(COMBINER_F90_COMPLEX) X(COMBINER_F90_INTEGER) \
  X(COMBINER_F90_REAL) X(COMBINER_HINDEXED) X(COMBINER_HINDEXED_BLOCK) X(COMBINER_HVECTOR) X(COMBINER_INDEXED) \
  X(COMBINER_INDEXED_BLOCK) X(COMBINER_NAMED) X(COMBINER_RESIZED) X(COMBINER_STRUCT) X(COMBINER_SUBARRAY) \
  X(COMBINER_VECTOR) X(COMM_DUP_FN) X(COMM_NULL) X(COMM_NULL_COPY_FN) X(COMM_NULL_DELETE_FN) X(COMM_SELF) \
  X(COMM_TYPE_SHARED) X(COMM_WORLD) X(COMPLEX) X(COMPLEX16) X(COMPLEX32) X(COMPLEX8) X(CONGRUENT) \
  X(CONVERSION_FN_NULL) X(COUNT) X(CXX_BOOL) X(CXX_DOUBLE_COMPLEX) X(CXX_FLOAT_COMPLEX) X(CXX_LONG_DOUBLE_COMPLEX) \
  X(C_BOOL) X(C_COMPLEX) X(C_DOUBLE_COMPLEX) X(C_FLOAT_COMPLEX) X(C_LONG_DOUBLE_COMPLEX) X(DATATYPE_NULL) \
  X(DISPLACEMENT_CURRENT) X(DISTRIBUTE_BLOCK) X(DISTRIBUTE_CYCLIC) X(DISTRIBUTE_DFLT_DARG) X(DISTRIBUTE_NONE) \
  X(DIST_GRAPH) X(DOUBLE) X(DOUBLE_COMPLEX) X(DOUBLE_INT) X(DOUBLE_PRECISION) X(DUP_FN) X(ERRCODES_IGNORE) \
  X(ERRHANDLER_NULL) X(ERRORS_ARE_FATAL) X(ERRORS_RETURN) X(ERR_ACCESS) X(ERR_AMODE) X(ERR_ARG) X(ERR_ASSERT) \
  X(ERR_BAD_FILE) X(ERR_BASE) X(ERR_BUFFER) X(ERR_COMM) X(ERR_CONVERSION) X(ERR_COUNT) X(ERR_DIMS) X(ERR_DISP) \
  X(ERR_DUP_DATAREP) X(ERR_FILE) X(ERR_FILE_EXISTS) X(ERR_FILE_IN_USE) X(ERR_GROUP) X(ERR_INFO) X(ERR_INFO_KEY) \
  X(ERR_INFO_NOKEY) X(ERR_INFO_VALUE) X(ERR_INTERN) X(ERR_IN_STATUS) X(ERR_IO) X(ERR_KEYVAL) X(ERR_LASTCODE) \
  X(ERR_LOCKTYPE) X(ERR_NAME) X(ERR_NOT_SAME) X(ERR_NO_MEM) X(ERR_NO_SPACE) X(ERR_NO_SUCH_FILE) X(ERR_OP) \
  X(ERR_OTHER) X(ERR_PENDING) X(ERR_PORT) X(ERR_QUOTA) X(ERR_RANK) X(ERR_READ_ONLY) X(ERR_REQUEST) X(ERR_RMA_ATTACH) \
  X(ERR_RMA_CONFLICT) X(ERR_RMA_FLAVOR) X(ERR_RMA_RANGE) X(ERR_RMA_SHARED) X(ERR_RMA_SYNC) X(ERR_ROOT) \
  X(ERR_SERVICE) X(ERR_SIZE) X(ERR_SPAWN) X(ERR_TAG) X(ERR_TOPOLOGY) X(ERR_TRUNCATE) X(ERR_TYPE) X(ERR_UNKNOWN) \
  X(ERR_UNSUPPORTED_DATAREP) X(ERR_UNSUPPORTED_OPERATION) X(ERR_WIN) X(FILE_NULL) X(FLOAT) X(FLOAT_INT) \
  X(F_STATUSES_IGNORE) X(F_STATUS_IGNORE) X(GRAPH) X(GROUP_EMPTY) X(GROUP_NULL) X(HOST) X(IDENT) X(INFO_ENV) \
  X(INFO_NULL) X(INT) X(INT16_T) X(INT32_T) X(INT64_T) X(INT8_T) X(INTEGER) X(INTEGER1) X(INTEGER2) X(INTEGER4) \
  X(INTEGER8) X(IN_PLACE) X(IO) X(KEYVAL_INVALID) X(LAND) X(LASTUSEDCODE) X(LOCK_EXCLUSIVE) X(LOCK_SHARED) \
  X(LOGICAL) X(LONG) X(LONG_DOUBLE) X(LONG_DOUBLE_INT) X(LONG_INT) X(LONG_LONG) X(LONG_LONG_INT) X(LOR) X(LXOR) \
  X(MAX) X(MAXLOC) X(MESSAGE_NO_PROC) X(MESSAGE_NULL) X(MIN) X(MINLOC) X(MODE_APPEND) X(MODE_CREATE) \
  X(MODE_DELETE_ON_CLOSE) X(MODE_EXCL) X(MODE_NOCHECK) X(MODE_NOPRECEDE) X(MODE_NOPUT) X(MODE_NOSTORE) \
  X(MODE_NOSUCCEED) X(MODE_RDONLY) X(MODE_RDWR) X(MODE_SEQUENTIAL) X(MODE_UNIQUE_OPEN) X(MODE_WRONLY) X(NO_OP) \
  X(NULL_COPY_FN) X(NULL_DELETE_FN) X(OFFSET) X(OP_NULL) X(ORDER_C) X(ORDER_FORTRAN) X(PACKED) X(PROC_NULL) X(PROD) \
  X(REAL) X(REAL16) X(REAL4) X(REAL8) X(REPLACE) X(REQUEST_NULL) X(ROOT) X(SEEK_CUR) X(SEEK_END) X(SEEK_SET) \
  X(SHORT) X(SHORT_INT) X(SIGNED_CHAR) X(SIMILAR) X(STATUSES_IGNORE) X(STATUS_IGNORE) X(SUCCESS) X(SUM) X(TAG_UB) \
  X(THREAD_FUNNELED) X(THREAD_MULTIPLE) X(THREAD_SERIALIZED) X(THREAD_SINGLE) X(TYPECLASS_COMPLEX) \
  X(TYPECLASS_INTEGER) X(TYPECLASS_REAL) X(TYPE_DUP_FN) X(TYPE_NULL_COPY_FN) X(TYPE_NULL_DELETE_FN) X(UINT16_T) \
  X(UINT32_T) X(UINT64_T) X(UINT8_T) X(UNDEFINED) X(UNEQUAL) X(UNIVERSE_SIZE) X(UNSIGNED) X(UNSIGNED_CHAR) \
  X(UNSIGNED_LONG) X(UNSIGNED_LONG_LONG) X(UNSIGNED_SHORT) X(UNWEIGHTED) X(WCHAR) X(WEIGHTS_EMPTY) X(WIN_BASE) \
  X(WIN_CREATE_FLAVOR) X(WIN_DISP_UNIT) X(WIN_DUP_FN) X(WIN_FLAVOR_ALLOCATE) X(WIN_FLAVOR_CREATE) \
  X(WIN_FLAVOR_DYNAMIC) X(WIN_FLAVOR_SHARED) X(WIN_MODEL) X(WIN_NULL) X(WIN_NULL_COPY_FN) X(WIN_NULL_DELETE_FN) \
  X(WIN_SEPARATE) X(WIN_SIZE) X(WIN_UNIFIED) X(WTIME_IS_GLOBAL)

#define XOE_MPI_OTHER_FUNCTIONS(X) \
  X(Abort) X(Accumulate) X(Add_error_class) X(Add_error_code) X(Add_error_string) X(Aint_add) X(Aint_diff) \
  X(Allgatherv) X(Alloc_mem) X(Alltoall) X(Alltoallv) X(Alltoallw) X(Barrier) X(Bcast) X(Bsend) X(Bsend_init) \
  X(Buffer_attach) X(Buffer_detach) X(Cancel) X(Cart_coords) X(Cart_create) X(Cart_get) X(Cart_map) X(Cart_rank) \
  X(Cart_shift) X(Cart_sub) X(Cartdim_get) X(Close_port) X(Comm_accept) X(Comm_c2f) X(Comm_call_errhandler) \
  X(Comm_compare) X(Comm_connect) X(Comm_create) X(Comm_create_errhandler) X(Comm_create_group) \
  X(Comm_create_keyval) X(Comm_delete_attr) X(Comm_disconnect) X(Comm_dup) X(Comm_dup_with_info) X(Comm_f2c) \
  X(Comm_free_keyval) X(Comm_get_attr) X(Comm_get_errhandler) X(Comm_get_info) X(Comm_get_name) X(Comm_get_parent) \
  X(Comm_group) X(Comm_idup) X(Comm_join) X(Comm_remote_group) X(Comm_remote_size) X(Comm_set_attr) \
  X(Comm_set_errhandler) X(Comm_set_info) X(Comm_set_name) X(Comm_spawn) X(Comm_spawn_multiple) X(Comm_split_type) \
  X(Comm_test_inter) X(Compare_and_swap) X(Dims_create) X(Dist_graph_create) X(Dist_graph_create_adjacent) \
  X(Dist_graph_neighbors) X(Dist_graph_neighbors_count) X(Errhandler_c2f) X(Errhandler_f2c) X(Errhandler_free) \
  X(Error_class) X(Exscan) X(Fetch_and_op) X(File_c2f) X(File_call_errhandler) X(File_close) \
  X(File_create_errhandler) X(File_delete) X(File_f2c) X(File_get_amode) X(File_get_atomicity) \
  X(File_get_byte_offset) X(File_get_errhandler) X(File_get_group) X(File_get_info) X(File_get_position) \
  X(File_get_position_shared) X(File_get_size) X(File_get_type_extent) X(File_get_view) X(File_iread) \
  X(File_iread_all) X(File_iread_at) X(File_iread_at_all) X(File_iread_shared) X(File_iwrite) X(File_iwrite_all) \
  X(File_iwrite_at) X(File_iwrite_at_all) X(File_iwrite_shared) X(File_open) X(File_preallocate) X(File_read) \
  X(File_read_all) X(File_read_all_begin) X(File_read_all_end) X(File_read_at) X(File_read_at_all) \
  X(File_read_at_all_begin) X(File_read_at_all_end) X(File_read_ordered) X(File_read_ordered_begin) \
  X(File_read_ordered_end) X(File_read_shared) X(File_seek) X(File_seek_shared) X(File_set_atomicity) \
  X(File_set_errhandler) X(File_set_info) X(File_set_size) X(File_set_view) X(File_sync) X(File_write) \
  X(File_write_all) X(File_write_all_begin) X(File_write_all_end) X(File_write_at) X(File_write_at_all) \
  X(File_write_at_all_begin) X(File_write_at_all_end) X(File_write_ordered) X(File_write_ordered_begin) \
  X(File_write_ordered_end) X(File_write_shared) X(Finalized) X(Free_mem) X(Gather) X(Gatherv) X(Get) \
  X(Get_accumulate) X(Get_address) X(Get_count) X(Get_elements) X(Get_elements_x) X(Get_processor_name) \
  X(Get_version) X(Graph_create) X(Graph_get) X(Graph_map) X(Graph_neighbors) X(Graph_neighbors_count) \
  X(Graphdims_get) X(Grequest_complete) X(Grequest_start) X(Group_c2f) X(Group_compare) X(Group_difference) \
  X(Group_excl) X(Group_f2c) X(Group_free) X(Group_incl) X(Group_intersection) X(Group_range_excl) \
  X(Group_range_incl) X(Group_rank) X(Group_size) X(Group_translate_ranks) X(Group_union) X(Iallgather) \
  X(Iallgatherv) X(Iallreduce) X(Ialltoall) X(Ialltoallv) X(Ialltoallw) X(Ibarrier) X(Ibcast) X(Ibsend) X(Iexscan) \
  X(Igather) X(Igatherv) X(Improbe) X(Imrecv) X(Ineighbor_allgather) X(Ineighbor_allgatherv) X(Ineighbor_alltoall) \
  X(Ineighbor_alltoallv) X(Ineighbor_alltoallw) X(Info_c2f) X(Info_create) X(Info_delete) X(Info_dup) X(Info_f2c) \
  X(Info_free) X(Info_get) X(Info_get_nkeys) X(Info_get_nthkey) X(Info_get_valuelen) X(Info_set) X(Init) \
  X(Initialized) X(Intercomm_create) X(Intercomm_merge) X(Iprobe) X(Ireduce) X(Ireduce_scatter) \
  X(Ireduce_scatter_block) X(Irsend) X(Iscan) X(Iscatter) X(Iscatterv) X(Issend) X(Lookup_name) X(Message_c2f) \
  X(Message_f2c) X(Mprobe) X(Mrecv) X(Neighbor_allgather) X(Neighbor_allgatherv) X(Neighbor_alltoall) \
  X(Neighbor_alltoallv) X(Neighbor_alltoallw) X(Op_c2f) X(Op_commutative) X(Op_create) X(Op_f2c) X(Op_free) \
  X(Open_port) X(Pack) X(Pack_external) X(Pack_external_size) X(Pack_size) X(Probe) X(Publish_name) X(Put) \
  X(Query_thread) X(Raccumulate) X(Recv) X(Recv_init) X(Reduce) X(Reduce_local) X(Reduce_scatter_block) \
  X(Register_datarep) X(Request_c2f) X(Request_f2c) X(Request_free) X(Request_get_status) X(Rget) X(Rget_accumulate) \
  X(Rput) X(Rsend) X(Rsend_init) X(Scan) X(Scatter) X(Scatterv) X(Send) X(Send_init) X(Sendrecv_replace) X(Ssend) \
  X(Ssend_init) X(Start) X(Startall) X(Status_c2f) X(Status_f2c) X(Status_set_cancelled) X(Status_set_elements) \
  X(Status_set_elements_x) X(Test) X(Test_cancelled) X(Testall) X(Testany) X(Testsome) X(Topo_test) X(Type_c2f) \
  X(Type_commit) X(Type_contiguous) X(Type_create_darray) X(Type_create_f90_complex) X(Type_create_f90_integer) \
  X(Type_create_f90_real) X(Type_create_hindexed) X(Type_create_hindexed_block) X(Type_create_hvector) \
  X(Type_create_indexed_block) X(Type_create_keyval) X(Type_create_resized) X(Type_create_struct) \
  X(Type_create_subarray) X(Type_delete_attr) X(Type_dup) X(Type_f2c) X(Type_free) X(Type_free_keyval) \
  X(Type_get_attr) X(Type_get_contents) X(Type_get_envelope) X(Type_get_extent) X(Type_get_extent_x) \
  X(Type_get_name) X(Type_get_true_extent) X(Type_get_true_extent_x) X(Type_indexed) X(Type_match_size) \
  X(Type_set_attr) X(Type_set_name) X(Type_size) X(Type_size_x) X(Type_struct) X(Type_vector) X(Unpack) \
  X(Unpack_external) X(Unpublish_name) X(Waitall) X(Waitany) X(Waitsome) X(Win_allocate) X(Win_allocate_shared) \
  X(Win_attach) X(Win_c2f) X(Win_call_errhandler) X(Win_complete) X(Win_create) X(Win_create_dynamic) \
  X(Win_create_errhandler) X(Win_create_keyval) X(Win_delete_attr) X(Win_detach) X(Win_f2c) X(Win_fence) \
  X(Win_flush) X(Win_flush_all) X(Win_flush_local) X(Win_flush_local_all) X(Win_free) X(Win_free_keyval) \
  X(Win_get_attr) X(Win_get_errhandler) X(Win_get_group) X(Win_get_info) X(Win_get_name) X(Win_lock) X(Win_lock_all) \
  X(Win_post) X(Win_set_attr) X(Win_set_errhandler) X(Win_set_info) X(Win_set_name) X(Win_shared_query) X(Win_start) \
  X(Win_sync) X(Win_test) X(Win_unlock) X(Win_unlock_all) X(Win_wait) X(Wtick) X(Wtime)

// NOLINTEND(cppcoreguidelines-macro-usage)
// clang-format on
