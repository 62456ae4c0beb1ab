# find_package(tilewright) gives the targets
#   tilewright::tilewright         the shared library
#   tilewright::tilewright_static  the static library
# as far as they are installed. This file lies in <prefix>/share/tilewright/cmake.

get_filename_component(tilewright_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(tilewright_where HINTS "${tilewright_prefix}" NO_DEFAULT_PATH
    PATH_SUFFIXES "lib/${CMAKE_LIBRARY_ARCHITECTURE}" lib lib64)
set(tilewright_shared "${CMAKE_SHARED_LIBRARY_PREFIX}tilewright${CMAKE_SHARED_LIBRARY_SUFFIX}")
set(tilewright_static "${CMAKE_STATIC_LIBRARY_PREFIX}tilewright${CMAKE_STATIC_LIBRARY_SUFFIX}")
find_path(tilewright_include tilewright.h HINTS "${tilewright_prefix}/include" NO_DEFAULT_PATH)
find_file(tilewright_shared_library "${tilewright_shared}" ${tilewright_where})
find_file(tilewright_static_library "${tilewright_static}" ${tilewright_where})
mark_as_advanced(tilewright_include tilewright_shared_library tilewright_static_library)

include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(tilewright_shared_library AND NOT TARGET tilewright::tilewright)
    add_library(tilewright::tilewright SHARED IMPORTED)
    set_target_properties(tilewright::tilewright PROPERTIES
        IMPORTED_LOCATION "${tilewright_shared_library}"
        INTERFACE_INCLUDE_DIRECTORIES "${tilewright_include}")
endif()
if(tilewright_static_library AND NOT TARGET tilewright::tilewright_static)
    add_library(tilewright::tilewright_static STATIC IMPORTED)
    set_target_properties(tilewright::tilewright_static PROPERTIES
        IMPORTED_LOCATION "${tilewright_static_library}"
        INTERFACE_INCLUDE_DIRECTORIES "${tilewright_include}"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

if(NOT tilewright_include OR NOT (tilewright_shared_library OR tilewright_static_library))
    set(tilewright_FOUND FALSE)
    set(tilewright_NOT_FOUND_MESSAGE "no header or no library under ${tilewright_prefix}")
endif()
