"""erf and tanh of binary32 by pieces: sixteen polynomials each, the right one picked lane by lane.

A piece gives f(c + h) as v + h*Q(h). Its middle c is a float where f is almost exactly the float
v, so that nearly all of the error is the rounding of the last step; near zero, f(x) is x + x*Q(x).
Coefficients stand in columns: one table for each power, highest first, with a number per piece.
They were fitted for this project; the test over every float holds them to what they are for.
"""

from tilewright.codegen.lanes import Lanes, fma, select
from tilewright.codegen.math_exp import ROUNDER
from tilewright.codegen.pick import Table, pick

ERF_PIECES, ERF_END = 3.95, 3.92
"""Pieces of erf in a unit of x, and where it is 1 to binary32."""

TANH_END, TANH_NEAR = 9.02, 0.09375
"""Where tanh is 1 to binary32, and where its piece near zero ends."""

HALF_OCTAVE, FIRST_HALF = 22, 0x3D800000
"""Two pieces of tanh for each power of two: what is left of a float without its low bits numbers
them. The first begins at 2**-4, with these bits."""

ERF_MIDDLES = (
    0.0,
    0.0,
    0.5064379,
    0.75952035,
    1.0127116,
    1.2656556,
    1.518958,
    1.7721356,
    2.0255716,
    2.2779024,
    2.5312998,
    2.7840304,
    3.0386841,
    3.2846527,
    3.5445836,
    3.832507,
)
ERF_VALUES = (
    0.0,
    0.0,
    0.52613914,
    0.7172329,
    0.8479107,
    0.9265312,
    0.96829665,
    0.9877956,
    0.9958245,
    0.9987245,
    0.99965614,
    0.99991757,
    0.9999827,
    0.9999966,
    0.99999946,
    0.99999994,
)
ERF_POLYNOMIALS = (
    (
        -0.007172317,
        -0.03605935,
        -0.048957303,
        -0.025858538,
        0.0057297423,
        0.021572335,
        0.018583428,
        0.008067809,
        -4.104558e-05,
        -0.0029946868,
        -0.00265631,
        -0.0015101213,
        -0.0006438992,
        -0.00022154067,
        -6.199556e-05,
        -1.4828829e-05,
    ),
    (
        0.11324918,
        0.13367344,
        0.005758531,
        -0.054334797,
        -0.06829338,
        -0.04508479,
        -0.01285487,
        0.0075944914,
        0.013025846,
        0.010148332,
        0.0056202877,
        0.0024502326,
        0.0008669053,
        0.00026716452,
        6.491118e-05,
        1.0807679e-05,
    ),
    (
        3.5426678e-05,
        -0.0064104693,
        0.18326993,
        0.14812234,
        0.06480241,
        -0.0097742835,
        -0.04590376,
        -0.04730586,
        -0.032770004,
        -0.01763093,
        -0.0077058882,
        -0.0028170487,
        -0.0008634921,
        -0.00023679009,
        -5.1559262e-05,
        -7.905675e-06,
    ),
    (
        -0.37613076,
        -0.37503403,
        -0.14175217,
        0.032476798,
        0.14177033,
        0.16703552,
        0.1353205,
        0.085933715,
        0.044786166,
        0.019676479,
        0.007328668,
        0.002347388,
        0.0006418031,
        0.00015961326,
        3.1710635e-05,
        4.4611056e-06,
    ),
    (
        1.3128698e-07,
        -9.706606e-05,
        -0.44217443,
        -0.48135173,
        -0.40976515,
        -0.2877936,
        -0.17060122,
        -0.086509846,
        -0.037767503,
        -0.014338574,
        -0.004710486,
        -0.0013520367,
        -0.0003349955,
        -7.644761e-05,
        -1.3980133e-05,
        -1.8071737e-06,
    ),
    (
        0.12837917,
        0.12838267,
        0.8731071,
        0.6337575,
        0.40462175,
        0.22738698,
        0.112314634,
        0.04881672,
        0.018645357,
        0.006294639,
        0.0018608974,
        0.00048564014,
        0.00011024366,
        2.3274355e-05,
        3.944119e-06,
        4.7150664e-07,
    ),
)
TANH_MIDDLES = (
    2.4997172,
    3.5005865,
    4.99977,
    6.998237,
    8.317766,
    0.0,
    0.0,
    0.10934932,
    0.15629765,
    0.21874551,
    0.31252342,
    0.43750852,
    0.62510663,
    0.875142,
    1.2497119,
    1.749765,
)
TANH_VALUES = (
    0.9866068,
    0.99818003,
    0.99990916,
    0.99999833,
    0.9999999,
    0.0,
    0.0,
    0.10891555,
    0.15503724,
    0.21532206,
    0.302731,
    0.41157714,
    0.55467355,
    0.7039772,
    0.8482028,
    0.9413488,
)
TANH_POLYNOMIALS = (
    (
        6.054772e-05,
        4.1773103e-05,
        2.5890406e-06,
        4.779101e-08,
        2.1152025e-09,
        0.0,
        -0.051874712,
        -7844.5337,
        -106.02085,
        8.935069,
        1.0853645,
        0.5941173,
        -0.00406559,
        0.032212786,
        -0.004484271,
        -0.0019984483,
    ),
    (
        -0.0006989175,
        -0.00015689436,
        -9.217627e-06,
        -1.7005584e-07,
        -1.0335153e-08,
        0.0,
        -0.00042168534,
        1.1889982,
        -0.061324153,
        -0.0848869,
        -0.074528456,
        -0.06273655,
        -0.024017159,
        0.0131051,
        0.015086697,
        0.002085939,
    ),
    (
        0.0028622,
        0.00047154725,
        2.3964833e-05,
        4.4104414e-07,
        3.1912382e-08,
        0.0,
        0.13336787,
        3.8199403,
        0.30768105,
        0.06802405,
        0.037271604,
        -0.010438868,
        -0.05414245,
        -0.059475385,
        -0.019225381,
        0.0036982037,
    ),
    (
        -0.008054921,
        -0.0011961717,
        -5.9823524e-05,
        -1.0996905e-06,
        -7.953123e-08,
        0.0,
        -1.303361e-06,
        0.070061475,
        0.097245686,
        0.12740222,
        0.15813592,
        0.17000216,
        0.13786598,
        0.060750846,
        -0.012555817,
        -0.023527507,
    ),
    (
        0.017029837,
        0.0024112023,
        0.000121140765,
        2.226307e-06,
        1.5894192e-07,
        0.0,
        -0.3333333,
        -0.31818542,
        -0.30197722,
        -0.27365506,
        -0.21951869,
        -0.13615738,
        -0.017782012,
        0.0818476,
        0.1083252,
        0.06294349,
    ),
    (
        -0.02625058,
        -0.0036300318,
        -0.00018176693,
        -3.3400238e-06,
        -2.3841586e-07,
        0.0,
        -6.0382116e-11,
        -0.107623495,
        -0.15131068,
        -0.20533897,
        -0.27498692,
        -0.34185773,
        -0.38402116,
        -0.3550974,
        -0.23796502,
        -0.107184246,
    ),
    (
        0.026607074,
        0.003636624,
        0.000181662,
        3.3377785e-06,
        2.3841856e-07,
        0.0,
        5.8955695e-14,
        0.9881374,
        0.9759635,
        0.9536364,
        0.9083539,
        0.83060426,
        0.6923373,
        0.50441605,
        0.28055197,
        0.113862455,
    ),
)


def erf(x: Lanes) -> Lanes:
    """erf x within 1 ULP; 0.630 over every float."""
    a = x.abs()
    y = select(a.gt(ERF_END), ERF_END, a)
    shifted = fma(y, ERF_PIECES, y.constant(ROUNDER))
    piece, is_near = shifted.bits(), shifted.le(ROUNDER + 1.0)
    h = y - pick(ERF_MIDDLES, piece)
    value = select(is_near, a, pick(ERF_VALUES, piece))
    return fma(h, polynomial(h, ERF_POLYNOMIALS, piece), value).copysign(x)


def tanh(x: Lanes) -> Lanes:
    """tanh x within 1 ULP; 0.626 over every float."""
    a = x.abs()
    y = select(a.gt(TANH_END), TANH_END, a)
    bits = y.bits()
    piece = select(bits.gt(FIRST_HALF), bits, FIRST_HALF) >> HALF_OCTAVE
    h = y - pick(TANH_MIDDLES, piece)
    value = select(a.lt(TANH_NEAR), a, pick(TANH_VALUES, piece))
    return fma(h, polynomial(h, TANH_POLYNOMIALS, piece), value).copysign(x)


def polynomial(h: Lanes, columns: tuple[Table, ...], piece: Lanes) -> Lanes:
    """The polynomial of a piece by fused steps."""
    total = pick(columns[0], piece)
    for column in columns[1:]:
        total = fma(total, h, pick(column, piece))
    return total
