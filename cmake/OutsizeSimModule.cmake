# outsize/_sim: the simulators for Python (python/bindings), beside _core in the package. It is linked
# without torch; of torch's installation it may take pybind11's headers, where pybind11 itself is not
# installed. Everything that Python should get from sim/ is bound in this one module.

include(OutsizePython)

# Looked up, not imported: importing torch takes seconds.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
    "from importlib.util import find_spec as f; print((f('pybind11') or f('torch')).submodule_search_locations[0])"
  OUTPUT_VARIABLE OUTSIZE_PYBIND11_DIR ERROR_QUIET RESULT_VARIABLE pybind11_missing
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(pybind11_missing)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no pybind11 and no torch, whose headers the simulator's "
                      "Python module needs. pip install pybind11, or build without it: "
                      "-DOUTSIZE_BUILD_SIM_MODULE=OFF")
endif()

Python_add_library(outsize_sim_module MODULE WITH_SOABI
                   python/bindings/sim_module.cpp python/bindings/pilots.cpp python/bindings/replays.cpp
                   python/bindings/trace_paths.cpp python/bindings/trace_runs.cpp python/bindings/traces.cpp)
target_include_directories(outsize_sim_module SYSTEM PRIVATE "${OUTSIZE_PYBIND11_DIR}/include")
target_link_libraries(outsize_sim_module PRIVATE outsize_sim outsize_traces outsize_core outsize_flags)
# A process may hold this module's copy of core beside liboutsize's: neither must see the other.
target_link_options(outsize_sim_module PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(outsize_sim_module PROPERTIES
  OUTPUT_NAME _sim
  CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/python/outsize")
install(TARGETS outsize_sim_module LIBRARY DESTINATION . COMPONENT wheel EXCLUDE_FROM_ALL)
