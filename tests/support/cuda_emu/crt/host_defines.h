// CUDA's qualifiers, for a C++ compiler. CUDA's headers include a file of this name, which the runtime wheel does not
// have; the guard keeps a toolkit's own out.
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__

#define __host__
#define __device__
#define __global__
#define __constant__ static
#define __shared__ static
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__
#define __no_return__ __attribute__((noreturn))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL

#endif
