# For wheels (manylinux_2_28): libraries and programs link so that they run on every Linux from glibc 2.28 on, and hold libstdc++
# and the small libraries that they need. Objects are compiled as ever. XOE_PORTABLE is the folder that scripts/portable.sh makes.
set(XOE_PORTABLE "" CACHE PATH "What scripts/portable.sh made: link for every Linux from glibc 2.28 on; empty: for this one")
if(NOT XOE_PORTABLE)
  return()
endif()

# The launcher is linked with all of glibc (XOE_STATIC), and needs none of this.
set(dynamic $<NOT:$<BOOL:$<TARGET_PROPERTY:XOE_STATIC>>>)
# A program that is linked with libtorch shares libstdc++ with it: the system's, with what is newer than GCC 8's inside.
set(libtorch $<BOOL:$<TARGET_PROPERTY:XOE_LIBTORCH>>)
set(program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
target_link_options(xoe_flags INTERFACE
  $<${dynamic}:-B${XOE_PORTABLE}/glibc/>  # with its start-up code
  $<${dynamic}:-L${XOE_PORTABLE}/glibc>
  $<${dynamic}:${XOE_PORTABLE}/compat.o>
  $<IF:${libtorch},-L${XOE_PORTABLE}/libstdcxx,-static-libstdc++>
  -L${XOE_PORTABLE}/lib  # libsodium.a
  LINKER:--as-needed
  LINKER:--gc-sections  # of libstdc++
  $<$<AND:${dynamic},${program}>:LINKER:--allow-shlib-undefined>)  # this system's libgcc_s.so.1 wants a newer glibc

# Cross compilers come with a glibc that gets no fixes; a static program takes that of Debian's package for the processor.
if(CMAKE_CROSSCOMPILING)
  set(packages ${XOE_PORTABLE}/root/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  target_link_options(xoe_flags INTERFACE $<$<NOT:${dynamic}>:-B${packages}/> $<$<NOT:${dynamic}>:-L${packages}>)
endif()

# Conversions of 16-bit floats from libgcc.a: older systems' libgcc_s.so.1 has none.
target_link_libraries(xoe_flags INTERFACE $<${dynamic}:-lgcc>)

set(ZLIB_LIBRARY ${XOE_PORTABLE}/lib/libz.a)
set(PNG_LIBRARY ${XOE_PORTABLE}/lib/libpng.a)
set(JPEG_LIBRARY ${XOE_PORTABLE}/lib/libjpeg.a)
# The pool's libraries. cpp-httplib's header is that of the sources that its archive was made from.
if(XOE_WITH_POOL)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET GLOBAL sqlite3)
  pkg_check_modules(openssl REQUIRED IMPORTED_TARGET GLOBAL openssl)
  pkg_check_modules(cpp_httplib REQUIRED IMPORTED_TARGET GLOBAL cpp-httplib)
  find_package(pugixml REQUIRED GLOBAL)
  set(portable_library ${XOE_PORTABLE}/lib/lib)
  set_property(TARGET PkgConfig::sqlite3 PROPERTY INTERFACE_LINK_LIBRARIES ${portable_library}sqlite3.a m)
  set_property(TARGET PkgConfig::openssl PROPERTY INTERFACE_LINK_LIBRARIES ${portable_library}ssl.a ${portable_library}crypto.a)
  set_property(TARGET PkgConfig::cpp_httplib PROPERTY INTERFACE_LINK_LIBRARIES ${portable_library}cpp-httplib.a PkgConfig::openssl
    ${portable_library}brotlienc.a ${portable_library}brotlidec.a ${portable_library}brotlicommon.a ${ZLIB_LIBRARY})
  set_property(TARGET PkgConfig::cpp_httplib PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${XOE_PORTABLE}/include)
  set_property(TARGET pugixml::pugixml PROPERTY INTERFACE_LINK_LIBRARIES ${portable_library}pugixml.a)
endif()

find_package(hwy REQUIRED GLOBAL)
find_package(Gloo CONFIG REQUIRED GLOBAL)
foreach(target hwy::hwy gloo)
  string(REGEX REPLACE ".*::" "" name ${target})
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration ${configurations})
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${XOE_PORTABLE}/lib/lib${name}.a)
  endforeach()
endforeach()
set_target_properties(gloo PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${XOE_PORTABLE}/include INTERFACE_LINK_LIBRARIES "")
