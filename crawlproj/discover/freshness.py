"""When to revisit pages: how often each changes, and what a visit to it is worth. Pure.

A page that changes at random, `rate` times a second, and is visited every `t` seconds is as it was
last seen for a share (1 - e^-x) / x of the time, where x = rate · t. The visits of a budget do most
for the sum of these shares, each times the page's importance, if one more would be worth the same
everywhere: `importance / rate · (1 - e^-x (1 + x))`, the *price* (the Lagrange multiplier of the
budget). So a page is due when a visit is worth the price, and the price is the one at which all
pages together ask for as many visits as there are (Cho and Garcia-Molina 2003; the index form as in
Azar et al. 2018). Pages that change too fast to be kept fresh have the longest interval there is:
visits do more elsewhere.

A rate is never known, but how well it is: as from so many changes (`evidence`), which makes it a
Gamma distribution. What a visit is worth is the mean over that. So a page that has seemed to change
too fast in two visits is not given up for it, as it would be by its likeliest rate: if it was bad
luck, a visit is worth much.

`uniform` (all pages alike) and `proportional` (twice the changes, twice the visits), which are
common and worse, have prices too: seconds, and visits a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log, log1p, sqrt
from typing import NamedTuple

from crawlproj.config import choices
from crawlproj.frontier.visits import History

FADING = 0.99
"""How much of what earlier visits have shown counts after each further one, so that a page whose
habits change is understood anew after about a hundred."""

PRIOR_CHANGES = 0.8
"""So many changes, at the usual rate, are assumed of every page before anything is known of it."""

CERTAIN = 1e9
"""Evidence of a rate that is known."""

_ANY_PRICE = log(1e-15), log(1e18)
_EXACT = 1e-3
"""Of prices, as logarithms."""
_STEPS = 64
_ENOUGH = 1e-4
_NEVER = 1e12
"""Changes from one visit to the next: nothing is due after so many."""


class Estimate(NamedTuple):
    """Changes a second, and how well that is known: as from so many changes."""

    rate: float
    evidence: float = CERTAIN


class Demand(NamedTuple):
    """A page among those that a budget is shared by; `rate` and `evidence` are its Estimate."""

    importance: float
    rate: float
    evidence: float = CERTAIN


def observe(
    history: History, interval_s: float, *, is_changed: bool, age_s: float | None = None
) -> History:
    """What is known after one more visit. `age_s` is how long ago the page was changed last, if
    it says: then it is also known for how long it has not been."""
    changes, changed_s, unchanged_s = (value * FADING for value in history)
    if not is_changed:
        return History(changes, changed_s, unchanged_s + interval_s)
    if age_s is not None and 0 <= age_s < interval_s:
        return History(changes + 1, changed_s, unchanged_s + age_s)
    return History(changes + 1, changed_s + interval_s, unchanged_s)


def estimate(history: History, usual_rate: float) -> Estimate:
    """How often it changes, most likely: the root of Σ I / (e^(rate·I) - 1) over the intervals
    after which the page had changed = the time after which it had not (Cho and Garcia-Molina, for
    visits at any intervals). All intervals of the former kind are taken for as long as their mean.
    The evidence is how fast the likelihood falls off on both sides of it."""
    changes, changed_s, unchanged_s = history
    quiet_s = unchanged_s + PRIOR_CHANGES / usual_rate
    if changes <= 0 or changed_s / changes < quiet_s * 1e-9:  # known to the moment
        return Estimate((changes + PRIOR_CHANGES) / quiet_s, changes + PRIOR_CHANGES)
    interval_s = changed_s / changes
    rate, evidence = (changes + PRIOR_CHANGES) / (quiet_s + changed_s), PRIOR_CHANGES
    for _ in range(_STEPS):
        excess, evidence = _slopes(rate, changes, interval_s, quiet_s)
        step = max(-1.0, min(1.0, excess / evidence))
        rate *= exp(step)
        if abs(step) < _ENOUGH:
            break
    return Estimate(rate, evidence)


def _slopes(rate: float, changes: float, interval_s: float, quiet_s: float) -> tuple[float, float]:
    """Of the likelihood's logarithm by that of the rate: the slope, and how fast it falls."""
    x = min(rate * interval_s, 300.0)
    grown = expm1(x)
    slope = changes * x / grown + PRIOR_CHANGES - quiet_s * rate
    bend = changes * x * (x * (grown + 1) - grown) / grown / grown + quiet_s * rate
    return slope, bend


def worth(page: Demand, interval_s: float) -> float:
    """What a visit after so long does for freshness: importance · seconds."""
    return page.importance / page.rate * _gain(page.rate * interval_s, page.evidence)


def freshness(rate: float, interval_s: float) -> float:
    """The share of the time in which a page that is visited so often is as it was last seen."""
    x = rate * interval_s
    return -expm1(-x) / x if 0 < x < inf else float(x == 0)


def _gain(x: float, evidence: float) -> float:
    """1 - e^-x (1 + x), as the mean over rates of which so much is known."""
    shrunk, others = -log1p(x / evidence), evidence - 1 or 1e-12
    return -evidence / others * expm1(others * shrunk) - x * exp(evidence * shrunk)


def _gain_reached(gain: float, evidence: float) -> float:
    """The x at which _gain(x) is that much."""
    if evidence > 1 and gain >= evidence / (evidence - 1):
        return inf
    x = sqrt(2 * gain) * (1 + gain / 3) if gain < 0.7 else 2.0
    for _ in range(_STEPS):
        slope = x * x * exp(-(evidence + 1) * log1p(x / evidence))  # by the logarithm of x
        step = (_gain(x, evidence) - gain) / slope if slope > 0 else -1.0
        x *= exp(max(-1.0, min(1.0, -step)))
        if abs(step) <= _ENOUGH or x > _NEVER:
            break
    return x


def _optimal(page: Demand, price: float) -> float:
    return _gain_reached(price * page.rate / page.importance, page.evidence) / page.rate


def _uniform(page: Demand, price: float) -> float:
    return price


def _proportional(page: Demand, price: float) -> float:
    return price / page.rate


POLICIES: Mapping[str, Callable[[Demand, float], float]] = {
    choices.OPTIMAL: _optimal,
    choices.UNIFORM: _uniform,
    choices.PROPORTIONAL: _proportional,
}


@dataclass(frozen=True)
class Policy:
    """How often pages are visited at a price; never more often or less often than may be."""

    name: str = choices.OPTIMAL
    shortest_s: float = 0.001
    longest_s: float = inf

    def interval_s(self, page: Demand, price: float) -> float:
        """From one visit to the next."""
        wanted_s = POLICIES[self.name](page, price)
        return min(self.longest_s, max(self.shortest_s, wanted_s))

    def visits_per_s(self, pages: Iterable[Demand], price: float) -> float:
        """What these pages ask for together."""
        return sum(1 / self.interval_s(page, price) for page in pages)

    def price(
        self, pages: Sequence[Demand], visits_per_s: float, guess: float | None = None
    ) -> float:
        """The price at which they ask for as many visits as there are, within a thousandth. If even
        the shortest intervals need fewer, it is as low as can be; if the longest need more, as
        high. It is found sooner near a good guess."""
        low, high = self._around(pages, visits_per_s, guess) if guess else _ANY_PRICE
        while high - low > _EXACT:
            middle = (low + high) / 2
            if self.visits_per_s(pages, exp(middle)) > visits_per_s:
                low = middle
            else:
                high = middle
        return exp(high)

    def _around(
        self, pages: Sequence[Demand], visits_per_s: float, guess: float
    ) -> tuple[float, float]:
        """Two prices, as logarithms, between which the right one is."""
        found = log(guess)
        is_low = self.visits_per_s(pages, guess) > visits_per_s
        far = 0.1
        while _ANY_PRICE[0] < found < _ANY_PRICE[1]:
            further = found + far if is_low else found - far
            if (self.visits_per_s(pages, exp(further)) > visits_per_s) != is_low:
                return min(found, further), max(found, further)
            found, far = further, far * 2
        return _ANY_PRICE


def importance_of(priority: float) -> float:
    """How much the freshness of a page counts: as much as the strategy's score says."""
    return max(1.0, priority)
