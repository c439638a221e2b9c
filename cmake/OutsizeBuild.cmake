# What every target of this project shares: warnings, sanitizers, ccache, and three helpers that let
# a new source or test file join its target without an edit here.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "outsize runs on Linux: its memory manager needs userfaultfd or Linux signals.")
endif()

# A debug build of the host platform is dominated by checks in tight page loops; -O1 keeps stack
# traces readable and the tests quick. -g1 has lines and no variables: the tests build in two thirds of
# the time.
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
# The frame pointer costs nothing measurable and lets perf and the crash handler walk the stack.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -fno-omit-frame-pointer -DNDEBUG")

# An op passes through a dozen small functions of several libraries; inlined across their borders a
# million adds of 64 floats take 3 % less time.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT OUTSIZE_SANITIZE)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT OUTSIZE_IPO LANGUAGES CXX)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ${OUTSIZE_IPO})
endif()

find_program(OUTSIZE_CCACHE ccache)
if(OUTSIZE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without these sloppiness settings ccache refuses files that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${OUTSIZE_CCACHE})
endif()

add_library(outsize_flags INTERFACE)
target_compile_options(outsize_flags INTERFACE -Wall -Wextra)
# A newer compiler knows warnings we have not seen; they must not stop a user's build.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(outsize_flags INTERFACE -Werror)
endif()
# Calls inside liboutsize are direct: nobody replaces its functions one by one, and every op makes
# several of them.
target_compile_options(outsize_flags INTERFACE -fno-plt -fno-semantic-interposition)
target_include_directories(outsize_flags INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
if(OUTSIZE_SANITIZE)
  if(OUTSIZE_BUILD_TORCH)
    message(FATAL_ERROR "Sanitizers need -DOUTSIZE_BUILD_TORCH=OFF: PyTorch's own libraries are not "
                        "instrumented and drown the report in false alarms.")
  endif()
  target_compile_options(outsize_flags INTERFACE
    -fsanitize=${OUTSIZE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(outsize_flags INTERFACE -fsanitize=${OUTSIZE_SANITIZE})
  if(OUTSIZE_SANITIZE MATCHES "thread")
    # g++ says on every fence that ThreadSanitizer cannot see it; the warning is not about our code.
    target_compile_options(outsize_flags INTERFACE -Wno-tsan)
  endif()
endif()

# outsize_sources(<out> <tests_out> <glob>...): sorted sources, and beside them the *_test.cpp.
function(outsize_sources out tests_out)
  file(GLOB all CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" ${ARGN})
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER all EXCLUDE REGEX "_test\\.cpp$")
  set(${out} "${all}" PARENT_SCOPE)
  set(${tests_out} "${tests}" PARENT_SCOPE)
endfunction()

# outsize_library(<name> STATIC|SHARED <sources>): a folder without sources gives an empty library,
# so that the folders can be filled in any order.
function(outsize_library name kind sources)
  if(NOT sources)
    file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp.in" "")
    configure_file("${CMAKE_CURRENT_BINARY_DIR}/empty.cpp.in"
                   "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp" COPYONLY)
    set(sources "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
  endif()
  add_library(${name} ${kind} ${sources})
  target_link_libraries(${name} PUBLIC "$<BUILD_INTERFACE:outsize_flags>")
endfunction()

# outsize_tests(<name> <sources> <library>...): one GoogleTest binary a folder, one ctest entry a
# test. Every test must end by itself; the limit only turns a hang into a failure.
function(outsize_tests name sources)
  if(NOT OUTSIZE_BUILD_TESTS)
    return()
  endif()
  if(NOT sources)
    add_custom_target(${name})  # a folder without tests yet: nothing to build
    return()
  endif()
  add_executable(${name} ${sources})
  # What nearly every test includes, read once.
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <memory> <string> <vector>)
  target_link_libraries(${name} PRIVATE ${ARGN} outsize_flags GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  # PRE_TEST: listing the tests at build time would run a sanitized binary during the build.
  # The timeout is for what hangs: under sanitizers on a slow machine some take five minutes.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 900 LABELS ${name})
endfunction()

if(OUTSIZE_BUILD_TESTS)
  enable_testing()
  find_package(GTest)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR "GoogleTest not found. On Debian: apt-get install libgtest-dev libgmock-dev; "
                        "or build without tests: -DOUTSIZE_BUILD_TESTS=OFF")
  endif()
  include(GoogleTest)
endif()
