#include "run/paired_sign.h"

#include "base/int64.h"

#include <gmp.h>

double paired_sign_probability(int64_t gained, int64_t lost) {
    int64_t fewer = int64_smaller(gained, lost), all = gained + lost;
    mpz_t term, sum;
    mpq_t probability;
    mpz_init_set_ui(term, 1);
    mpz_init_set_ui(sum, 1);
    for (int64_t k = 1; k <= fewer; k++) { // all over k, from all over k − 1
        mpz_mul_ui(term, term, (unsigned long)(all - k + 1));
        mpz_divexact_ui(term, term, (unsigned long)k);
        mpz_add(sum, sum, term);
    }
    mpq_init(probability);
    mpq_set_z(probability, sum);
    mpq_mul_2exp(probability, probability, 1);
    mpq_div_2exp(probability, probability, (mp_bitcnt_t)all);
    double result = mpq_cmp_ui(probability, 1, 1) < 0 ? mpq_get_d(probability) : 1;
    mpq_clear(probability);
    mpz_clear(term), mpz_clear(sum);
    return result;
}
