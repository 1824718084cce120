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

# Conversions of 16-bit floats from libgcc.a: older systems' libgcc_s.so.1 has none.
target_link_libraries(xoe_flags INTERFACE $<${dynamic}:-lgcc>)

set(ZLIB_LIBRARY ${XOE_PORTABLE}/lib/libz.a)
set(PNG_LIBRARY ${XOE_PORTABLE}/lib/libpng.a)
set(JPEG_LIBRARY ${XOE_PORTABLE}/lib/libjpeg.a)
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
