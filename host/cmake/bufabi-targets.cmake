# The targets of bufabi, from BUFABI_LIBRARY_FOLDER and BUFABI_INCLUDE_FOLDER: bufabi::static, bufabi::shared, and bufabi::bufabi, which is the
# shared one where BUILD_SHARED_LIBS says so.
find_package(Threads REQUIRED)

if(NOT TARGET bufabi::static)
    add_library(bufabi::static STATIC IMPORTED GLOBAL)
    set_target_properties(bufabi::static PROPERTIES
        IMPORTED_LOCATION ${BUFABI_LIBRARY_FOLDER}/libbufabi.a
        INTERFACE_INCLUDE_DIRECTORIES ${BUFABI_INCLUDE_FOLDER}
        INTERFACE_LINK_LIBRARIES "Threads::Threads;dl;m;gcc_s")
    add_library(bufabi::shared SHARED IMPORTED GLOBAL)
    set_target_properties(bufabi::shared PROPERTIES
        IMPORTED_LOCATION ${BUFABI_LIBRARY_FOLDER}/libbufabi.so
        INTERFACE_INCLUDE_DIRECTORIES ${BUFABI_INCLUDE_FOLDER})
    add_library(bufabi::bufabi INTERFACE IMPORTED GLOBAL)
    if(BUILD_SHARED_LIBS)
        set_target_properties(bufabi::bufabi PROPERTIES INTERFACE_LINK_LIBRARIES bufabi::shared)
    else()
        set_target_properties(bufabi::bufabi PROPERTIES INTERFACE_LINK_LIBRARIES bufabi::static)
    endif()
endif()
