// Where NVIDIA's headers of NVTX are: our declarations are theirs, and a profiler hears the same of both.
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include "core/drivers/nvtx/nvtx.h"
#include "core/testing/places.h"
#include "core/testing/scratch.h"

namespace xoe {
namespace {

#define XOE_SAME_NUMBER(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
#define XOE_SAME_PLACE(ours, theirs) static_assert(offsetof(NvtxEvent, ours) == offsetof(nvtxEventAttributes_t, theirs))

static_assert(sizeof(NvtxEvent) == sizeof(nvtxEventAttributes_t) && NvtxEvent().size == NVTX_EVENT_ATTRIB_STRUCT_SIZE);
XOE_SAME_PLACE(version, version);
XOE_SAME_PLACE(size, size);
XOE_SAME_PLACE(category, category);
XOE_SAME_PLACE(color_type, colorType);
XOE_SAME_PLACE(color, color);
XOE_SAME_PLACE(payload_type, payloadType);
XOE_SAME_PLACE(payload, payload);
XOE_SAME_PLACE(message_type, messageType);
XOE_SAME_PLACE(message, message);
XOE_SAME_NUMBER(NvtxEvent().version, NVTX_VERSION);
XOE_SAME_NUMBER(NvtxEvent().color_type, NVTX_COLOR_ARGB);
XOE_SAME_NUMBER(NvtxEvent().payload_type, NVTX_PAYLOAD_TYPE_INT64);
XOE_SAME_NUMBER(NvtxEvent().message_type, NVTX_MESSAGE_TYPE_ASCII);
XOE_SAME_NUMBER(NvtxModule::kCore, NVTX_CB_MODULE_CORE);
XOE_SAME_NUMBER(NvtxModule::kCuda, NVTX_CB_MODULE_CUDA);
XOE_SAME_NUMBER(NvtxModule::kOpenCl, NVTX_CB_MODULE_OPENCL);
XOE_SAME_NUMBER(NvtxModule::kCudaRuntime, NVTX_CB_MODULE_CUDART);
XOE_SAME_NUMBER(NvtxModule::kCore2, NVTX_CB_MODULE_CORE2);
XOE_SAME_NUMBER(NvtxModule::kSync, NVTX_CB_MODULE_SYNC);
XOE_SAME_NUMBER(std::size(kNvtxSlots), NVTX_CB_MODULE_SIZE);
XOE_SAME_NUMBER(kNvtxSlots[NVTX_CB_MODULE_CORE], NVTX_CBID_CORE_SIZE);
XOE_SAME_NUMBER(kNvtxSlots[NVTX_CB_MODULE_CUDA], NVTX_CBID_CUDA_SIZE);
XOE_SAME_NUMBER(kNvtxSlots[NVTX_CB_MODULE_OPENCL], NVTX_CBID_OPENCL_SIZE);
XOE_SAME_NUMBER(kNvtxSlots[NVTX_CB_MODULE_CUDART], NVTX_CBID_CUDART_SIZE);
XOE_SAME_NUMBER(kNvtxSlots[NVTX_CB_MODULE_CORE2], NVTX_CBID_CORE2_SIZE);
XOE_SAME_NUMBER(kNvtxSlots[NVTX_CB_MODULE_SYNC], NVTX_CBID_SYNC_SIZE);
XOE_SAME_NUMBER(NvtxSlot::kRangeStart, NVTX_CBID_CORE2_DomainRangeStartEx);
XOE_SAME_NUMBER(NvtxSlot::kRangeEnd, NVTX_CBID_CORE2_DomainRangeEnd);
XOE_SAME_NUMBER(NvtxSlot::kNameCategory, NVTX_CBID_CORE2_DomainNameCategoryA);
XOE_SAME_NUMBER(NvtxSlot::kDomainCreate, NVTX_CBID_CORE2_DomainCreateA);
XOE_SAME_NUMBER(kNvtxCallbacks, NVTX_ETID_CALLBACKS);
XOE_SAME_NUMBER(kNvtxVersionInfo, NVTX_ETID_VERSIONINFO);
static_assert(sizeof(NvtxCallbacks) == sizeof(NvtxExportTableCallbacks));
static_assert(offsetof(NvtxCallbacks, module_table) == offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
static_assert(sizeof(NvtxVersionInfo) == sizeof(NvtxExportTableVersionInfo));
static_assert(offsetof(NvtxVersionInfo, version) == offsetof(NvtxExportTableVersionInfo, version));
static_assert(offsetof(NvtxVersionInfo, set_profilers_version) ==
              offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));

void by_nvidias_headers() {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("some");
  nvtxDomainNameCategoryA(domain, 7, "kind");
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = 7;
  event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  event.payload.llValue = -5;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "a name";
  nvtxDomainRangeEnd(domain, nvtxDomainRangeStartEx(domain, &event));
}

void by_ours() {
  const auto api = attach_profiler(Env::process());
  ASSERT_TRUE(api) << api.error().message();
  const NvtxDomain domain = api->create_domain("some");
  api->name_category(domain, 7, "kind");
  api->end_range(domain, api->start_range(domain, {.category = 7, .payload = -5, .message = "a name"}));
}

std::string heard_of(void (*act)(), const std::string& file) {
  ::setenv("XOE_MOCK_NVTX", file.c_str(), 1);
  act();
  std::stringstream heard;
  heard << std::ifstream(file).rdbuf();
  return std::regex_replace(heard.str(), std::regex("(start|end) \\d+"), "$1");
}

// Both in one process, as PyTorch's NVTX and Xoe's are.
TEST(NvtxHeaders, AProfilerHearsTheSame) {
  const Scratch scratch;
  ::setenv("NVTX_INJECTION64_PATH", built_file("libmock_nvtx.so").c_str(), 1);
  const std::string theirs = heard_of(&by_nvidias_headers, scratch.file("theirs"));
  EXPECT_EQ(theirs, "domain some\ncategory 7 kind\nstart 7 -5 a name\nend\n");
  EXPECT_EQ(heard_of(&by_ours, scratch.file("ours")), theirs);
}

}  // namespace
}  // namespace xoe
