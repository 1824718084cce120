#include "frameworks/plugins/tensorflow_c.h"

#include <dlfcn.h>

namespace xoe::plugins::tensorflow {
namespace {

struct Entry {
  const char* name;
  void* place;
};

}  // namespace

const char* load(Api& api) {
  const Entry entries[] = {
      {"TF_NewStatus", &api.new_status},
      {"TF_DeleteStatus", &api.delete_status},
      {"TF_SetStatus", &api.set_status},
      {"TF_GetCode", &api.code},
      {"TF_Message", &api.message},
      {"TF_NewOpDefinitionBuilder", &api.new_op},
      {"TF_OpDefinitionBuilderAddAttr", &api.add_attribute},
      {"TF_OpDefinitionBuilderAddInput", &api.add_input},
      {"TF_OpDefinitionBuilderAddOutput", &api.add_output},
      {"TF_OpDefinitionBuilderSetIsStateful", &api.set_stateful},
      {"TF_OpDefinitionBuilderSetShapeInferenceFunction", &api.set_shape_function},
      {"TF_RegisterOpDefinition", &api.register_op},
      {"TF_ShapeInferenceContextNumInputs", &api.input_count},
      {"TF_NewShapeHandle", &api.new_shape},
      {"TF_DeleteShapeHandle", &api.delete_shape},
      {"TF_ShapeInferenceContextGetInput", &api.input_shape},
      {"TF_ShapeInferenceContextSetOutput", &api.set_output_shape},
      {"TF_ShapeInferenceContextSetUnknownShape", &api.set_unknown_shapes},
      {"TF_NewAsyncKernelBuilder", &api.new_kernel},
      {"TF_RegisterKernelBuilder", &api.register_kernel},
      {"TF_OpKernelConstruction_Failure", &api.fail_construction},
      {"TF_OpKernelConstruction_GetAttrSize", &api.attribute_size},
      {"TF_OpKernelConstruction_GetAttrString", &api.attribute_text},
      {"TF_OpKernelConstruction_GetAttrInt64", &api.attribute_integer},
      {"TF_NumInputs", &api.inputs},
      {"TF_GetInput", &api.input},
      {"TF_AllocateOutput", &api.allocate_output},
      {"TF_ForwardInputOrAllocateOutput", &api.forward_or_allocate_output},
      {"TF_OpKernelContext_Failure", &api.fail},
      {"TF_RunAsyncOpKernelDoneCallback", &api.run_done},
      {"TF_DeleteTensor", &api.delete_tensor},
      {"TF_TensorType", &api.type},
      {"TF_NumDims", &api.ndim},
      {"TF_Dim", &api.dimension},
      {"TF_TensorData", &api.data},
  };
  for (const Entry& entry : entries) {
    void* const found = ::dlsym(RTLD_DEFAULT, entry.name);
    if (found == nullptr) return entry.name;
    *static_cast<void**>(entry.place) = found;
  }
  return nullptr;
}

}  // namespace xoe::plugins::tensorflow
