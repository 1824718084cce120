#!/usr/bin/env bash
# Makes what wheels link with, in build/peers/portable: stubs of glibc 2.28 (names and versions of its functions, no code), and the
# small libraries that wheels hold, from Debian's sources, as static libraries that may become part of a shared one.
#   scripts/portable.sh [aarch64]
# cmake/Portable.cmake says how they are used. No root is needed. aarch64: the same for that processor, in build/peers/portable-aarch64,
# by Debian's cross compiler, and what it links with there: Debian's packages in root/, PyTorch's in site-packages/.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Debian's source packages, and what is made of each: SOURCE:LIBRARY.
sources=(zlib:z libpng1.6:png libjpeg-turbo:jpeg highway:hwy cpp-httplib:cpp-httplib)
# Debian's own archives that need nothing newer than this glibc.
archives=(libsodium-dev:sodium libssl-dev:ssl libssl-dev:crypto libsqlite3-dev:sqlite3 libpugixml-dev:pugixml libbrotli-dev:brotlienc
  libbrotli-dev:brotlidec libbrotli-dev:brotlicommon)
# Packages whose headers or libraries differ by processor: a build for another one takes them from root/. libpython3.11-dev is that
# of this system's Python; other Pythons have one header for all. CMake wants to see the shared libraries of some.
foreign=("${archives[@]%:*}" libc6-dev libcpp-httplib0.11 libcpp-httplib-dev libcurl4-openssl-dev libfmt9 libfmt-dev libgloo0 libgloo-dev
  libhwy1 libhwy-dev libjpeg62-turbo-dev libmpich12 libmpich-dev libopenmpi3 libopenmpi-dev libpng-dev libprotozero-dev libpugixml1v5
  libpython3.11-dev libtomlplusplus-dev zlib1g-dev)
glibc=2.28

steps=
if [[ ${1:-} == steps ]]; then
  steps=yes
  shift
fi
processor=${1:-x86_64}
[[ $processor =~ ^(x86_64|aarch64)$ && $# -le 1 ]] || die "usage: scripts/portable.sh [aarch64]"
cd "$root"
tools=$root/build/peers/wheel
folder=$root/build/peers/portable
system=      # where Debian's packages are
tool_prefix= # of compiler and binary tools
loader=ld-linux-x86-64.so.2
toolchain=()
if [[ $processor == aarch64 ]]; then
  folder=$folder-aarch64
  system=$folder/root
  tool_prefix=aarch64-linux-gnu-
  loader=ld-linux-aarch64.so.1
  toolchain=(-DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchains/arm64.cmake" -DXOE_PORTABLE="$folder")
fi
# A security fix asks for new archives: of this processor when it is installed, of another when this machine's lists know it.
if [[ -z $system ]]; then
  versions=$(dpkg-query -W -f '${Package} ${Version}\n' "${archives[@]%:*}" | sort -u)
else
  versions=$(apt-cache --no-all-versions show "${foreign[@]}" | sed -n 's/^Package: //p; s/^Version: //p' | paste -d ' ' - - | sort -u)
fi
made_of=$({ cat "${BASH_SOURCE[0]}" cmake/portable/compat.c cmake/portable/stub_libstdcxx.py requirements/wheel.txt requirements/gloo.txt &&
  echo "$versions" && if [[ -n $system ]]; then cat requirements/core.txt cmake/toolchains/arm64.cmake; fi; } | sha256sum)

# zig makes the stubs; libc_nonshared.a has stat and its like, Scrt1.o runs constructors on a glibc before 2.34.
make_glibc() {
  local stubs=$folder/glibc library
  mkdir -p "$stubs" "$folder/zig"
  echo 'int main(void) { return 0; }' >"$folder/empty.c"
  ZIG_GLOBAL_CACHE_DIR=$folder/zig "$tools/bin/python" -m ziglang cc -target "$processor-linux-gnu.$glibc" -fPIE -pie \
    -o "$folder/empty" "$folder/empty.c"
  find "$folder/zig/o" \( -name '*.so*' -o -name libc_nonshared.a -o -name Scrt1.o \) -exec cp {} "$stubs" \;
  mv "$stubs/libld.so.2" "$stubs/$loader"
  for library in m.so.6 pthread.so.0 dl.so.2 rt.so.1 resolv.so.2 util.so.1; do
    ln -sf "lib$library" "$stubs/lib${library%%.*}.so"
  done
  # Before 2.34, threads and dlopen() had libraries of their own.
  # The linker looks beside this file first.
  echo "GROUP ( libc.so.6 libc_nonshared.a AS_NEEDED ( libpthread.so.0 libdl.so.2 librt.so.1 $loader ) )" >"$stubs/libc.so"
  rm -rf "$folder/zig" "$folder/empty" "$folder/empty.c"
}

# Lists of source packages, from the places of Debian that apt takes its packages from, in folders of their own: neither root nor a
# change to this system is needed.
make_apt() {
  mkdir -p "$folder"/apt/lists/partial "$folder"/apt/cache/archives/partial
  cp /var/lib/dpkg/status "$folder/apt/status"
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u |
    sed 's,^,[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ,' >"$folder/apt/places"
  sed 's,^,deb-src ,' "$folder/apt/places" >"$folder/apt/sources.list"
  if [[ -n $system ]]; then sed 's,^\[,deb [arch=arm64 ,' "$folder/apt/places" >>"$folder/apt/sources.list"; fi
  cat >"$folder/apt.conf" <<END
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$folder/apt";
Dir::State::lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
Dir::State::status "$folder/apt/status";
APT::Sandbox::User "";
END
  APT_CONFIG=$folder/apt.conf apt-get -qq update
}

# Debian's packages for the other processor, unpacked; their versions.
make_root() {
  local packed=$folder/apt/packages package
  rm -rf "$packed" # of a run that failed
  mkdir -p "$packed" "$system"
  (cd "$packed" && APT_CONFIG=$folder/apt.conf apt-get -qq download "${foreign[@]/%/:arm64}")
  for package in "$packed"/*.deb; do
    dpkg-deb -x "$package" "$system"
    # shellcheck disable=SC2016
    dpkg-deb -W --showformat '${Package} ${Version}\n' "$package" >>"$folder/versions-of-packages.txt"
  done
}

# PyTorch for the other processor: its headers, and libraries that are linked with; the tests of wheels run with it.
take_pytorch() {
  rm -rf "$folder/site-packages"
  use_pip_settings "$tools/bin/python"
  "$tools/bin/uv" pip install -q --python "$tools/bin/python" --target "$folder/site-packages" --no-deps \
    --python-platform aarch64-manylinux_2_28 --only-binary :all: -r requirements/core.txt
}

# unpack SOURCE: the newest version that can be downloaded, into sources/SOURCE; notes which. A mirror may lack the newest.
unpack() {
  local choice from
  mkdir -p "$folder/lib" "$folder/sources" "$folder/licences"
  export APT_CONFIG=$folder/apt.conf
  # shellcheck disable=SC1091
  for choice in $(apt-cache showsrc "$1" | sed -n 's/^Version: /=/p' | sort -Vru) "/$(. /etc/os-release && echo "$VERSION_CODENAME")"; do
    from=$folder/sources/$1-as-packed
    rm -rf "$from" && mkdir "$from"
    if (cd "$from" && apt-get -qq source --download-only "$1$choice" && dpkg-source -x "$1"_*.dsc "$folder/sources/$1"); then
      echo "$1 $(sed -n 's/^Version: //p' "$from/$1"_*.dsc | head -n 1)" >>"$folder/versions.txt"
      cp "$folder/sources/$1/debian/copyright" "$folder/licences/$1.txt"
      return
    fi
  done
  echo "error: the sources of $1 cannot be downloaded"
  return 1
}

# make_library SOURCE NAME: lib/libNAME.a.
make_library() {
  local from=$folder/sources/$1 options=() target=$2
  case $1 in
    zlib) # without the files of other systems that its CMakeLists.txt asks for
      (cd "$from" && CHOST=$processor-linux-gnu CC="ccache ${tool_prefix}gcc" CFLAGS="-O3 -fPIC -fvisibility=hidden" ./configure --static &&
        make libz.a)
      cp "$from/libz.a" "$folder/lib/"
      return
      ;;
    cpp-httplib) # the header is cut in two, as Debian's package has it
      local headers=()
      if [[ -n $system ]]; then headers=(-isystem "$system/usr/include/$processor-linux-gnu" -isystem "$system/usr/include"); fi
      read -ra options < <(pkg-config --cflags cpp-httplib)
      mkdir -p "$folder/include"
      (cd "$from" && python3 ./split.py && ccache "${tool_prefix}g++" "${headers[@]}" -std=c++17 -O2 -fPIC "${options[@]}" -c out/httplib.cc -o httplib.o &&
        "${tool_prefix}ar" rcs "$folder/lib/libcpp-httplib.a" httplib.o)
      cp "$from/out/httplib.h" "$folder/include/"
      return
      ;;
    libpng1.6) options=(-DPNG_SHARED=OFF -DPNG_TESTS=OFF) target=png_static ;;
    libjpeg-turbo) options=(-DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DREQUIRE_SIMD=ON) target=jpeg-static ;;
    highway) options=(-DBUILD_TESTING=OFF -DHWY_ENABLE_TESTS=OFF -DHWY_ENABLE_EXAMPLES=OFF -DHWY_ENABLE_CONTRIB=OFF) ;;
    gloo) options=(-DUSE_REDIS=OFF -DUSE_IBVERBS=OFF -DBUILD_TEST=OFF -DBUILD_BENCHMARK=OFF) ;;
  esac
  cmake -S "$from" -B "$from/made" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "${toolchain[@]}" \
    -DCMAKE_C_FLAGS=-fvisibility=hidden -DCMAKE_CXX_FLAGS=-fvisibility=hidden "${options[@]}"
  cmake --build "$from/made" --target "$target"
  cp "$(find "$from/made" -name "lib$2*.a" -type f -print -quit)" "$folder/lib/lib$2.a"
}

# Gloo, with its headers: TCP only.
make_gloo() {
  mkdir -p "$folder/sources/packed" "$folder/include"
  "$tools/bin/python" -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$folder/sources/packed" \
    -r requirements/gloo.txt
  tar -xzf "$folder"/sources/packed/*.tar.gz -C "$folder/sources" --strip-components=2 --wildcards '*/third_party/gloo/*'
  make_library gloo gloo
  (cd "$folder/sources/gloo" && find gloo -name '*.h' -exec cp --parents {} "$folder/include" \;)
  cp "$folder/sources/gloo/made/gloo/config.h" "$folder/include/gloo/"
  cp /usr/share/doc/libgloo-dev/copyright "$folder/licences/gloo.txt"
  sed -n 's/^# Gloo \([0-9.]*\) .*/gloo \1/p' requirements/gloo.txt >>"$folder/versions.txt"
}

# For programs that share libstdc++ with libtorch: a linker script, which takes from the system's library what GCC 8's had, by a stub,
# and the rest from the archive, into the program.
make_libstdcxx() {
  local stubs=$folder/libstdcxx
  mkdir -p "$stubs"
  cmake/portable/stub_libstdcxx.py "$("${tool_prefix}g++" -print-file-name=libstdc++.so)" "$stubs"
  "${tool_prefix}gcc" -shared -nostdlib -Wl,-soname,libstdc++.so.6 -Wl,--version-script="$stubs/versions" -o "$stubs/libstdc++.so.6" "$stubs/stub.s"
  echo "INPUT ( libstdc++.so.6 $("${tool_prefix}g++" -print-file-name=libstdc++.a) )" >"$stubs/libstdc++.so"
}

take_archives() {
  local name
  for name in "${archives[@]#*:}"; do cp "$system/usr/lib/$processor-linux-gnu/lib$name.a" "$folder/lib/"; done
  if [[ -n $system ]]; then versions=$(cat "$folder/versions-of-packages.txt"); fi
  echo "$versions" >>"$folder/versions.txt"
}

if [[ -n $steps ]]; then
  [[ -f $folder/glibc/libc.so ]] || make_glibc
  make_libstdcxx
  "${tool_prefix}gcc" -O2 -fPIC -Wall -Werror -c cmake/portable/compat.c -o "$folder/compat.o"
  make_apt
  if [[ -n $system ]]; then
    make_root
    take_pytorch
  fi
  for pair in "${sources[@]}"; do
    unpack "${pair%:*}"
    make_library "${pair%:*}" "${pair#*:}"
  done
  make_gloo
  take_archives
  exit 0
fi

if [[ -f $folder/installed && $(<"$folder/installed") == "$made_of" ]]; then exit 0; fi
command -v nasm >/dev/null || die "portable.sh: nasm is missing; scripts/setup.sh --with wheel installs it"
command -v "${tool_prefix}g++" >/dev/null || die "portable.sh: ${tool_prefix}g++ is missing; scripts/setup.sh --with wheel-$processor installs it"
install_environment wheel "what makes wheels" requirements/wheel.txt
say "making what wheels${system:+ for $processor} link with, in ${folder#"$root"/}"
rm -rf "$folder"/{sources,root,versions.txt,versions-of-packages.txt,installed}
mkdir -p "$folder"
# A process of its own, which the first error ends.
run_step "portable libraries${system:+ $processor}" "${BASH_SOURCE[0]}" steps "$processor"
rm -rf "$folder/sources" "$folder/apt" "$folder/apt.conf" "$folder/versions-of-packages.txt"
echo "$made_of" >"$folder/installed"
