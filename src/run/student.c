#include "run/student.h"

#include "base/error.h"

#include <arb_hypgeom.h>
#include <math.h>

enum { PRECISION = 128, HALVINGS = 200 };

// I_x(ν/2, 1/2), twice the probability above t.
static double beta(double x, double degrees) {
    arb_t a, b, at, result;
    arb_init(a), arb_init(b), arb_init(at), arb_init(result);
    arb_set_d(a, degrees / 2), arb_set_d(b, 0.5), arb_set_d(at, x);
    arb_hypgeom_beta_lower(result, a, b, at, 1, PRECISION);
    double value = arf_get_d(arb_midref(result), ARF_RND_NEAR);
    arb_clear(a), arb_clear(b), arb_clear(at), arb_clear(result);
    return value;
}

double student_quantile(double probability, double degrees) {
    CHECK(probability >= 0.5 && probability < 1 && degrees > 0, "probability %g, %g degrees of freedom", probability,
          degrees);
    // t grows from 0; beta falls from 1 with it.
    double wanted = 2 * (1 - probability), low = 0, high = 1;
    while (beta(degrees / (degrees + high * high), degrees) > wanted) low = high, high *= 2;
    for (int i = 0; i < HALVINGS && low < high; i++) {
        double middle = low + (high - low) / 2;
        if (middle == low || middle == high) break;
        if (beta(degrees / (degrees + middle * middle), degrees) > wanted)
            low = middle;
        else
            high = middle;
    }
    return high;
}
