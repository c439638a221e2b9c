# Finds the torch of one Python interpreter and gives the target `outsize_torch`.
#
# Not find_package(Torch): its configuration drags protobuf, CUDA and MKL look-ups and global flags
# along, and we need three libraries and two folders.

include(OutsizePython)

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
    "import os, torch; print(torch.__version__); print(os.path.dirname(torch.__file__)); print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"
  OUTPUT_VARIABLE torch_answer ERROR_VARIABLE torch_error RESULT_VARIABLE torch_failed
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(torch_failed)
  message(FATAL_ERROR "${Python_EXECUTABLE} cannot import torch. Install it there first (make setup), "
                      "or build without it: -DOUTSIZE_BUILD_TORCH=OFF\n${torch_error}")
endif()
string(REPLACE "\n" ";" torch_answer "${torch_answer}")
list(GET torch_answer 0 OUTSIZE_TORCH_VERSION)
list(GET torch_answer 1 OUTSIZE_TORCH_DIR)
list(GET torch_answer 2 OUTSIZE_TORCH_CXX11_ABI)

# PyTorch's C++ interface moves between minor releases, and the free dispatch key with it (ADR 0003).
# All tests run with 2.13; with 2.12.0 and 2.15.0, by hand, those of the adapter, sessions and raw access.
if(NOT OUTSIZE_TORCH_VERSION MATCHES "^2\\.1[2-5]\\.")
  message(FATAL_ERROR "outsize can be built for torch 2.12 to 2.15; ${Python_EXECUTABLE} has "
                      "${OUTSIZE_TORCH_VERSION}. Install torch 2.13 there.")
endif()

# The dispatch key that this release leaves to out-of-tree code and that sits above autograd.
set(OUTSIZE_DISPATCH_KEY "DeferredInit")
file(READ "${OUTSIZE_TORCH_DIR}/include/c10/core/DispatchKey.h" torch_keys)
if(NOT torch_keys MATCHES "[ \n]${OUTSIZE_DISPATCH_KEY},")
  message(FATAL_ERROR "torch ${OUTSIZE_TORCH_VERSION} has no dispatch key ${OUTSIZE_DISPATCH_KEY}, "
                      "which outsize needs to see ops; another one has to be chosen for it "
                      "(docs/adr/0003-interception.md).")
endif()
message(STATUS "torch ${OUTSIZE_TORCH_VERSION} in ${OUTSIZE_TORCH_DIR}")

# Every object that ends up in liboutsize must agree with torch on the layout of std::string.
add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=${OUTSIZE_TORCH_CXX11_ABI})

add_library(outsize_torch INTERFACE)
target_include_directories(outsize_torch SYSTEM INTERFACE
  "${OUTSIZE_TORCH_DIR}/include" "${OUTSIZE_TORCH_DIR}/include/torch/csrc/api/include")
# Without NDEBUG RecordFunction has another layout than in the torch that was installed.
target_compile_definitions(outsize_torch INTERFACE NDEBUG
  OUTSIZE_DISPATCH_KEY=${OUTSIZE_DISPATCH_KEY})
foreach(lib torch torch_cpu c10)
  target_link_libraries(outsize_torch INTERFACE "${OUTSIZE_TORCH_DIR}/lib/lib${lib}.so")
endforeach()
set(OUTSIZE_TORCH_PYTHON_LIB "${OUTSIZE_TORCH_DIR}/lib/libtorch_python.so")
