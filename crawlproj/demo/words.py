"""Seeded words: titles, path segments and paragraphs that look like a real site's."""

from __future__ import annotations

from random import Random

VOCABULARY = """
    amber anchor archive autumn basin beacon bridge bright canal canvas cedar chapter circle
    clear cloud coast copper corner country crystal current dawn delta distant early east echo
    ember evening fabric falcon field filter first forest forge fountain garden gentle glacier
    granite grove harbour hazel hidden hollow horizon island ivory journal junction kernel lake
    lantern lattice ledger letter light linen little lunar maple market meadow method mirror
    model morning mountain narrow needle north notebook oak ocean open orchard pattern pebble
    pilot pine planet plateau pocket prairie quarry quiet railway rapid raven record reef ridge
    river sable saffron salt sand season second shadow shelter signal silver simple slate small
    south spring stone storm stream summer table temper thistle tidal timber tower trail valley
    velvet vessel village violet walnut water weather west willow window winter wonder yellow
"""
WORDS = tuple(VOCABULARY.split())
SECTIONS = ("news", "guides", "products", "blog", "archive", "events", "research", "people")
NEWSPAPERS = ("Post", "Review", "Gazette", "Courier", "Almanac", "Observer")


def slug(rng: Random) -> str:
    return "-".join(rng.choices(WORDS, k=3))


def title(rng: Random, number: int) -> str:
    """Unique within a host by its number; some carry what HTML has to escape."""
    one, two, three = (word.capitalize() for word in rng.choices(WORDS, k=3))
    joint = " & " if number % 7 == 3 else " "
    return f"{one}{joint}{two} {three} {number}"


def site_name(rng: Random) -> str:
    return f"{rng.choice(WORDS).capitalize()} {rng.choice(NEWSPAPERS)}"


def sentence(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(8, 16))).capitalize() + "."


def paragraphs(rng: Random, size: int) -> str:
    """HTML paragraphs of about `size` bytes; none for a size too small for one."""
    text = []
    while size > 120:
        text.append("<p>" + " ".join(sentence(rng) for _ in range(4))[: size - 8] + "</p>\n")
        size -= len(text[-1])
    return "".join(text)
