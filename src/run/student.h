// Student's t distribution, through Arb's incomplete beta function.
#pragma once

// The t with P(T ≤ t) = probability for the degrees of freedom given (above 0, not necessarily whole), to about 12 digits;
// probability from 0.5 to below 1. With x = ν / (ν + t²): P(T > t) = I_x(ν/2, 1/2) / 2 (Abramowitz & Stegun 26.7.1).
double student_quantile(double probability, double degrees);
