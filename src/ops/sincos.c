#include "ops/sincos.h"

#include <math.h>

// sin(r) and cos(r) for |r| <= pi/4, to about one ulp of double.
static double sine_near_zero(double r) {
    double z = r * r, p = 1.58969099521155010221e-10;
    p = fma(p, z, -2.50507602534068634195e-08);
    p = fma(p, z, 2.75573137070700676789e-06);
    p = fma(p, z, -1.98412698298579493134e-04);
    p = fma(p, z, 8.33333333332248946124e-03);
    p = fma(p, z, -1.66666666666666324348e-01);
    return fma(r * z, p, r);
}

static double cosine_near_zero(double r) {
    double z = r * r, p = -1.13596475577881948265e-11;
    p = fma(p, z, 2.08757232129817482790e-09);
    p = fma(p, z, -2.75573143513906633035e-07);
    p = fma(p, z, 2.48015872894767294178e-05);
    p = fma(p, z, -1.38888888888741095749e-03);
    p = fma(p, z, 4.16666666666666019037e-02);
    return fma(z * z, p, fma(z, -0.5, 1.0));
}

void sincos_of(float angle, float *sine, float *cosine) {
    double x = angle, quarters = nearbyint(x * 0x1.45f306dc9c883p-1);
    if (!(fabs(quarters) < 0x1p52)) { // not a number, infinite, or too large for the reduction
        *sine = *cosine = NAN;
        return;
    }
    // The first step is exact: both terms are multiples of 2^-52 wherever the quotient is not 0.
    double r = fma(-quarters, 0x1.921fb54442d18p+0, x);
    r = fma(-quarters, 0x1.1a62633145c07p-54, r);
    double s = sine_near_zero(r), c = cosine_near_zero(r);
    switch ((long long)quarters & 3) {
    case 0: *sine = (float)s, *cosine = (float)c; return;
    case 1: *sine = (float)c, *cosine = (float)-s; return;
    case 2: *sine = (float)-s, *cosine = (float)-c; return;
    default: *sine = (float)-c, *cosine = (float)s; return;
    }
}
