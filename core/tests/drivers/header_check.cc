// Compiled, never run: our declarations of NCCL, CUDA and NVML are those of NVIDIA's headers.
#include <cstddef>
#include <type_traits>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvml.h>

#include "core/drivers/cuda/cuda.h"
#include "core/drivers/nccl/nccl.h"
#include "core/drivers/nvml/nvml.h"

namespace xoe {
namespace {

// The same in registers and on the stack: pointers are pointers, enumerations are integers.
template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (std::is_pointer_v<Ours>) return std::is_pointer_v<Theirs>;
  if constexpr (std::is_void_v<Ours>) return std::is_void_v<Theirs>;
  if constexpr (!std::is_pointer_v<Ours> && !std::is_void_v<Ours>) {
    constexpr auto is_number = [](auto* p) {
      using T = std::remove_pointer_t<decltype(p)>;
      return std::is_enum_v<T> || std::is_integral_v<T>;
    };
    return sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
           is_number(static_cast<Ours*>(nullptr)) == is_number(static_cast<Theirs*>(nullptr));
  }
  return false;
}

template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class R, class... Args, class S, class... Others>
requires(sizeof...(Args) == sizeof...(Others)) struct SameCall<R (*)(Args...), S (*)(Others...)>
    : std::bool_constant<same_value<R, S>() && (same_value<Args, Others>() && ...)> {
};

#define XOE_SAME_CALL(api, field, function) \
  static_assert(SameCall<decltype(api::field), std::add_pointer_t<decltype(::function)>>::value, #function)
// Of functions that have C++ overloads: the C one is there, and ours is it.
#define XOE_SAME_OVERLOAD(api, field, function, ...) \
  static_assert(SameCall<decltype(api::field), decltype(static_cast<__VA_ARGS__>(&::function))>::value, #function)
#define XOE_SAME_NUMBER(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

XOE_SAME_CALL(NcclApi, get_version, ncclGetVersion);
XOE_SAME_CALL(NcclApi, get_unique_id, ncclGetUniqueId);
XOE_SAME_CALL(NcclApi, comm_init_rank, ncclCommInitRank);
XOE_SAME_CALL(NcclApi, comm_init_rank_config, ncclCommInitRankConfig);
XOE_SAME_CALL(NcclApi, comm_finalize, ncclCommFinalize);
XOE_SAME_CALL(NcclApi, comm_destroy, ncclCommDestroy);
XOE_SAME_CALL(NcclApi, comm_abort, ncclCommAbort);
XOE_SAME_CALL(NcclApi, comm_get_async_error, ncclCommGetAsyncError);
XOE_SAME_CALL(NcclApi, get_error_string, ncclGetErrorString);
XOE_SAME_CALL(NcclApi, get_last_error, ncclGetLastError);
XOE_SAME_CALL(NcclApi, all_reduce, ncclAllReduce);
XOE_SAME_CALL(NcclApi, broadcast, ncclBroadcast);
XOE_SAME_CALL(NcclApi, reduce, ncclReduce);
XOE_SAME_CALL(NcclApi, all_gather, ncclAllGather);
XOE_SAME_CALL(NcclApi, reduce_scatter, ncclReduceScatter);
XOE_SAME_CALL(NcclApi, send, ncclSend);
XOE_SAME_CALL(NcclApi, recv, ncclRecv);
XOE_SAME_CALL(NcclApi, group_start, ncclGroupStart);
XOE_SAME_CALL(NcclApi, group_end, ncclGroupEnd);
XOE_SAME_CALL(NcclApi, red_op_create_pre_mul_sum, ncclRedOpCreatePreMulSum);
XOE_SAME_CALL(NcclApi, red_op_destroy, ncclRedOpDestroy);
XOE_SAME_CALL(NcclApi, comm_register, ncclCommRegister);
XOE_SAME_CALL(NcclApi, comm_deregister, ncclCommDeregister);

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && alignof(NcclUniqueId) == alignof(ncclUniqueId));
static_assert(std::is_trivially_copyable_v<NcclUniqueId>);
XOE_SAME_NUMBER(nccl_version(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_VERSION_CODE);
XOE_SAME_NUMBER(nccl_version(2, 8, 4), NCCL_VERSION(2, 8, 4));
XOE_SAME_NUMBER(nccl_version(2, 14, 0), NCCL_VERSION(2, 14, 0));
static_assert(offsetof(NcclConfig, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, unset) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(NcclConfig().magic == NCCL_API_MAGIC && NcclConfig().unset == NCCL_CONFIG_UNDEF_INT);
XOE_SAME_NUMBER(NcclResult::kSuccess, ncclSuccess);
XOE_SAME_NUMBER(NcclResult::kUnhandledCudaError, ncclUnhandledCudaError);
XOE_SAME_NUMBER(NcclResult::kSystemError, ncclSystemError);
XOE_SAME_NUMBER(NcclResult::kInternalError, ncclInternalError);
XOE_SAME_NUMBER(NcclResult::kInvalidArgument, ncclInvalidArgument);
XOE_SAME_NUMBER(NcclResult::kInvalidUsage, ncclInvalidUsage);
XOE_SAME_NUMBER(NcclResult::kRemoteError, ncclRemoteError);
XOE_SAME_NUMBER(NcclResult::kInProgress, ncclInProgress);
XOE_SAME_NUMBER(NcclResult::kTimeout, ncclTimeout);
XOE_SAME_NUMBER(NcclType::kInt8, ncclInt8);
XOE_SAME_NUMBER(NcclType::kUint8, ncclUint8);
XOE_SAME_NUMBER(NcclType::kInt32, ncclInt32);
XOE_SAME_NUMBER(NcclType::kInt64, ncclInt64);
XOE_SAME_NUMBER(NcclType::kFloat16, ncclFloat16);
XOE_SAME_NUMBER(NcclType::kFloat32, ncclFloat32);
XOE_SAME_NUMBER(NcclType::kFloat64, ncclFloat64);
XOE_SAME_NUMBER(NcclType::kBfloat16, ncclBfloat16);
XOE_SAME_NUMBER(NcclOp::kSum, ncclSum);
XOE_SAME_NUMBER(NcclOp::kProduct, ncclProd);
XOE_SAME_NUMBER(NcclOp::kMax, ncclMax);
XOE_SAME_NUMBER(NcclOp::kMin, ncclMin);
XOE_SAME_NUMBER(NcclOp::kAverage, ncclAvg);
XOE_SAME_NUMBER(NcclResidence::kDevice, ncclScalarDevice);
XOE_SAME_NUMBER(NcclResidence::kHost, ncclScalarHostImmediate);

XOE_SAME_CALL(CudaApi, runtime_get_version, cudaRuntimeGetVersion);
XOE_SAME_CALL(CudaApi, get_device_count, cudaGetDeviceCount);
XOE_SAME_CALL(CudaApi, set_device, cudaSetDevice);
XOE_SAME_CALL(CudaApi, get_device, cudaGetDevice);
XOE_SAME_CALL(CudaApi, get_device_properties, cudaGetDeviceProperties);
XOE_SAME_CALL(CudaApi, device_get_pci_bus_id, cudaDeviceGetPCIBusId);
XOE_SAME_CALL(CudaApi, stream_create_with_flags, cudaStreamCreateWithFlags);
XOE_SAME_CALL(CudaApi, stream_destroy, cudaStreamDestroy);
XOE_SAME_CALL(CudaApi, stream_wait_event, cudaStreamWaitEvent);
XOE_SAME_CALL(CudaApi, event_create_with_flags, cudaEventCreateWithFlags);
XOE_SAME_CALL(CudaApi, event_destroy, cudaEventDestroy);
XOE_SAME_CALL(CudaApi, event_record, cudaEventRecord);
XOE_SAME_CALL(CudaApi, event_query, cudaEventQuery);
XOE_SAME_OVERLOAD(CudaApi, memcpy_async, cudaMemcpyAsync,
                  cudaError_t (*)(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t));
XOE_SAME_CALL(CudaApi, launch_host_func, cudaLaunchHostFunc);
XOE_SAME_OVERLOAD(CudaApi, malloc, cudaMalloc, cudaError_t (*)(void**, size_t));
XOE_SAME_CALL(CudaApi, free, cudaFree);
XOE_SAME_OVERLOAD(CudaApi, host_alloc, cudaHostAlloc, cudaError_t (*)(void**, size_t, unsigned));
XOE_SAME_CALL(CudaApi, free_host, cudaFreeHost);
XOE_SAME_CALL(CudaApi, pointer_get_attributes, cudaPointerGetAttributes);
XOE_SAME_CALL(CudaApi, get_error_string, cudaGetErrorString);
XOE_SAME_CALL(CudaApi, mem_get_address_range, cuMemGetAddressRange_v2);
XOE_SAME_CALL(CudaApi, pointer_get_attribute, cuPointerGetAttribute);

XOE_SAME_NUMBER(CudaError::kSuccess, cudaSuccess);
XOE_SAME_NUMBER(CudaError::kMemoryAllocation, cudaErrorMemoryAllocation);
XOE_SAME_NUMBER(CudaError::kInsufficientDriver, cudaErrorInsufficientDriver);
XOE_SAME_NUMBER(CudaError::kNoDevice, cudaErrorNoDevice);
XOE_SAME_NUMBER(CudaError::kNotReady, cudaErrorNotReady);
XOE_SAME_NUMBER(CudaCopy::kDefault, cudaMemcpyDefault);
XOE_SAME_NUMBER(CudaMemory::kUnregistered, cudaMemoryTypeUnregistered);
XOE_SAME_NUMBER(CudaMemory::kHost, cudaMemoryTypeHost);
XOE_SAME_NUMBER(CudaMemory::kDevice, cudaMemoryTypeDevice);
XOE_SAME_NUMBER(CudaMemory::kManaged, cudaMemoryTypeManaged);
XOE_SAME_NUMBER(kCudaStreamNonBlocking, cudaStreamNonBlocking);
XOE_SAME_NUMBER(kCudaEventDisableTiming, cudaEventDisableTiming);
XOE_SAME_NUMBER(kCudaBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(offsetof(CudaPointer, memory) == offsetof(cudaPointerAttributes, type));
static_assert(offsetof(CudaPointer, device) == offsetof(cudaPointerAttributes, device));
static_assert(sizeof(CudaPointer) >= sizeof(cudaPointerAttributes));
static_assert(offsetof(CudaProperties, uuid) == offsetof(cudaDeviceProp, uuid));
static_assert(sizeof(CudaProperties::uuid) == sizeof(cudaUUID_t));
static_assert(sizeof(CudaProperties) >= sizeof(cudaDeviceProp));

XOE_SAME_CALL(NvmlApi, init, nvmlInit_v2);
XOE_SAME_CALL(NvmlApi, shutdown, nvmlShutdown);
XOE_SAME_CALL(NvmlApi, error_string, nvmlErrorString);
XOE_SAME_CALL(NvmlApi, driver_version, nvmlSystemGetDriverVersion);
XOE_SAME_CALL(NvmlApi, cuda_version, nvmlSystemGetCudaDriverVersion_v2);
XOE_SAME_CALL(NvmlApi, device_count, nvmlDeviceGetCount_v2);
XOE_SAME_CALL(NvmlApi, device_by_index, nvmlDeviceGetHandleByIndex_v2);
XOE_SAME_CALL(NvmlApi, device_by_uuid, nvmlDeviceGetHandleByUUID);
XOE_SAME_CALL(NvmlApi, name, nvmlDeviceGetName);
XOE_SAME_CALL(NvmlApi, uuid, nvmlDeviceGetUUID);
XOE_SAME_CALL(NvmlApi, pci_info, nvmlDeviceGetPciInfo_v3);
XOE_SAME_CALL(NvmlApi, memory_info, nvmlDeviceGetMemoryInfo);
XOE_SAME_CALL(NvmlApi, utilization, nvmlDeviceGetUtilizationRates);
XOE_SAME_CALL(NvmlApi, temperature, nvmlDeviceGetTemperature);
XOE_SAME_CALL(NvmlApi, max_mig_devices, nvmlDeviceGetMaxMigDeviceCount);
XOE_SAME_CALL(NvmlApi, mig_device, nvmlDeviceGetMigDeviceHandleByIndex);
XOE_SAME_CALL(NvmlApi, mig_mode, nvmlDeviceGetMigMode);
XOE_SAME_CALL(NvmlApi, compute_processes, nvmlDeviceGetComputeRunningProcesses_v3);
XOE_SAME_CALL(NvmlApi, nvlink_state, nvmlDeviceGetNvLinkState);
XOE_SAME_CALL(NvmlApi, nvlink_remote, nvmlDeviceGetNvLinkRemotePciInfo_v2);
XOE_SAME_CALL(NvmlApi, nvlink_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType);
XOE_SAME_CALL(NvmlApi, common_ancestor, nvmlDeviceGetTopologyCommonAncestor);
XOE_SAME_CALL(NvmlApi, p2p_status, nvmlDeviceGetP2PStatus);
XOE_SAME_NUMBER(NvmlResult::kSuccess, NVML_SUCCESS);
XOE_SAME_NUMBER(NvmlResult::kInvalidArgument, NVML_ERROR_INVALID_ARGUMENT);
XOE_SAME_NUMBER(NvmlResult::kNotSupported, NVML_ERROR_NOT_SUPPORTED);
XOE_SAME_NUMBER(NvmlResult::kNotFound, NVML_ERROR_NOT_FOUND);
XOE_SAME_NUMBER(NvmlResult::kInsufficientSize, NVML_ERROR_INSUFFICIENT_SIZE);
XOE_SAME_NUMBER(NvmlResult::kFunctionNotFound, NVML_ERROR_FUNCTION_NOT_FOUND);
XOE_SAME_NUMBER(NvmlResult::kVersionMismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
static_assert(sizeof(NvmlPciInfo) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(NvmlPciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(NvmlMemory) == sizeof(nvmlMemory_t));
static_assert(offsetof(NvmlMemory, used) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(NvmlUtilization) == sizeof(nvmlUtilization_t));
static_assert(offsetof(NvmlUtilization, gpu) == offsetof(nvmlUtilization_t, gpu));
static_assert(sizeof(NvmlProcess) == sizeof(nvmlProcessInfo_t));
static_assert(offsetof(NvmlProcess, pid) == offsetof(nvmlProcessInfo_t, pid));
static_assert(offsetof(NvmlProcess, memory) == offsetof(nvmlProcessInfo_t, usedGpuMemory));

}  // namespace
}  // namespace xoe
