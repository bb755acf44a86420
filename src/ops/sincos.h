// Sine and cosine, the same on every machine: double arithmetic with written fma, then one rounding to fp32.
// Cody-Waite reduction by pi/2 in two doubles and Taylor-like minimax polynomials (the coefficients of fdlibm's kernels).
#pragma once

// Each result differs from the true value by at most 0.500001 ulp for |angle| <= 1e6 (`make ulp`); farther
// out the error grows slowly. Infinite or NaN angles give NaN.
void sincos_of(float angle, float *sine, float *cosine);
