# liboutsize.so (C++ programs link it) and outsize/_core (Python imports it), plus the build tree's
# own copy of the package: PYTHONPATH=<build>/python runs what was just built.

include(GNUInstallDirs)

outsize_sources(adapter_sources adapter_test_sources adapter/*.cpp adapter/*/*.cpp)
list(REMOVE_ITEM adapter_sources adapter/python_module.cpp)
set(package_dir "${CMAKE_BINARY_DIR}/python/outsize")

outsize_library(outsize SHARED "${adapter_sources}")
# Whole archives: liboutsize holds the one copy of the runtime in a process. Whoever else needs core
# or host symbols takes them from it and never links the static libraries a second time.
target_link_libraries(outsize
  PRIVATE outsize_host outsize_traces outsize_core
  PUBLIC "$<BUILD_INTERFACE:outsize_torch>")
set_target_properties(outsize PROPERTIES
  LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,outsize_host,outsize_traces,outsize_core")
target_link_options(outsize PRIVATE -Wl,-Bsymbolic-functions)
target_compile_definitions(outsize PRIVATE OUTSIZE_VERSION="${PROJECT_VERSION}")
if(adapter_sources)
  # A file that includes ATen takes about a minute; the shared part of that minute is paid once.
  target_precompile_headers(outsize PRIVATE <ATen/ATen.h> <torch/library.h>)
endif()
set_target_properties(outsize PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${package_dir}"
  INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
outsize_tests(adapter_tests "${adapter_test_sources}" outsize outsize_torch)

set(installed outsize)
if(EXISTS "${PROJECT_SOURCE_DIR}/adapter/python_module.cpp")
  Python_add_library(outsize_python_module MODULE WITH_SOABI adapter/python_module.cpp)
  target_link_libraries(outsize_python_module PRIVATE
    outsize outsize_flags outsize_torch "${OUTSIZE_TORCH_PYTHON_LIB}")
  target_compile_definitions(outsize_python_module PRIVATE
    OUTSIZE_VERSION="${PROJECT_VERSION}" TORCH_EXTENSION_NAME=_core)
  set_target_properties(outsize_python_module PROPERTIES
    OUTPUT_NAME _core
    LIBRARY_OUTPUT_DIRECTORY "${package_dir}"
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
  list(APPEND installed outsize_python_module)
endif()

# The build tree's package: our two libraries beside links to the sources.
file(GLOB package_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/python/outsize"
     python/outsize/*)
list(FILTER package_files EXCLUDE REGEX "^__pycache__$|\\.so$")
file(MAKE_DIRECTORY "${package_dir}")
foreach(name IN LISTS package_files)
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/outsize/${name}" "${package_dir}/${name}" SYMBOLIC)
endforeach()

# Two layouts from one build tree. `cmake --install <build> --prefix <dir>` makes what C++ programs
# need, in the usual places. The wheel takes the component `wheel`: everything in the package's own
# folder. Either way C++ programs say find_package(outsize).
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/outsizeConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)

# outsize_install_development(<libdir> <includedir> <configdir> <install option>...)
function(outsize_install_development libdir includedir configdir)
  set(OUTSIZE_CONFIG_LIB "${libdir}/liboutsize.so")
  set(OUTSIZE_CONFIG_INCLUDE "${includedir}")
  configure_package_config_file(cmake/outsizeConfig.cmake.in
    "${CMAKE_BINARY_DIR}/${configdir}/outsizeConfig.cmake" INSTALL_DESTINATION "${configdir}"
    PATH_VARS OUTSIZE_CONFIG_LIB OUTSIZE_CONFIG_INCLUDE)
  install(DIRECTORY include/outsize DESTINATION "${includedir}" ${ARGN} FILES_MATCHING PATTERN "*.h")
  install(FILES "${CMAKE_BINARY_DIR}/${configdir}/outsizeConfig.cmake"
                "${CMAKE_BINARY_DIR}/outsizeConfigVersion.cmake"
          DESTINATION "${configdir}" ${ARGN})
endfunction()

install(TARGETS ${installed} LIBRARY DESTINATION . COMPONENT wheel EXCLUDE_FROM_ALL)
outsize_install_development(. include share/cmake/outsize COMPONENT wheel EXCLUDE_FROM_ALL)

# In a prefix torch is not beside it: it is found where it was found here.
install(PROGRAMS "$<TARGET_FILE:outsize>" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
install(CODE "file(RPATH_SET FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/liboutsize.so\"
              NEW_RPATH \"${OUTSIZE_TORCH_DIR}/lib\")" COMPONENT runtime)
outsize_install_development("${CMAKE_INSTALL_LIBDIR}" "${CMAKE_INSTALL_INCLUDEDIR}"
  "${CMAKE_INSTALL_LIBDIR}/cmake/outsize" COMPONENT development)
