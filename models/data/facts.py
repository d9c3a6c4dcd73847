"""Look-up facts: a fixed table of real ones, asked in several phrasings.

A held-out question here is a phrasing of a fact that training saw only in other phrasings.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .example import Example

CAPITALS = """France Paris|Germany Berlin|Italy Rome|Spain Madrid|Portugal Lisbon|Austria Vienna
Switzerland Bern|Belgium Brussels|Poland Warsaw|Hungary Budapest|Greece Athens|Sweden Stockholm
Norway Oslo|Denmark Copenhagen|Finland Helsinki|Iceland Reykjavik|Ireland Dublin|Croatia Zagreb
Serbia Belgrade|Romania Bucharest|Bulgaria Sofia|Ukraine Kyiv|Turkey Ankara|Egypt Cairo
Morocco Rabat|Algeria Algiers|Tunisia Tunis|Kenya Nairobi|Ethiopia Addis_Ababa|Ghana Accra
Nigeria Abuja|Senegal Dakar|Uganda Kampala|Rwanda Kigali|Angola Luanda|Namibia Windhoek
Japan Tokyo|China Beijing|India New_Delhi|Nepal Kathmandu|Thailand Bangkok|Vietnam Hanoi
Indonesia Jakarta|Mongolia Ulaanbaatar|Iran Tehran|Iraq Baghdad|Jordan Amman|Lebanon Beirut
Canada Ottawa|Mexico Mexico_City|Cuba Havana|Brazil Brasilia|Argentina Buenos_Aires
Chile Santiago|Peru Lima|Colombia Bogota|Ecuador Quito|Uruguay Montevideo|Venezuela Caracas
Australia Canberra|New_Zealand Wellington|Latvia Riga|Estonia Tallinn|Lithuania Vilnius
Slovenia Ljubljana|Slovakia Bratislava|Albania Tirana|Cyprus Nicosia|Malta Valletta|Qatar Doha"""

ELEMENTS = """hydrogen H 1|helium He 2|lithium Li 3|beryllium Be 4|boron B 5|carbon C 6
nitrogen N 7|oxygen O 8|fluorine F 9|neon Ne 10|sodium Na 11|magnesium Mg 12|aluminium Al 13
silicon Si 14|phosphorus P 15|sulfur S 16|chlorine Cl 17|argon Ar 18|potassium K 19|calcium Ca 20
titanium Ti 22|chromium Cr 24|manganese Mn 25|iron Fe 26|cobalt Co 27|nickel Ni 28|copper Cu 29
zinc Zn 30|bromine Br 35|krypton Kr 36|silver Ag 47|tin Sn 50|iodine I 53|xenon Xe 54
tungsten W 74|platinum Pt 78|gold Au 79|mercury Hg 80|lead Pb 82|radon Rn 86|uranium U 92"""

STATUS = """200 OK|201 Created|202 Accepted|204 No Content|206 Partial Content
301 Moved Permanently|302 Found|303 See Other|304 Not Modified|307 Temporary Redirect
308 Permanent Redirect|400 Bad Request|401 Unauthorized|403 Forbidden|404 Not Found
405 Method Not Allowed|406 Not Acceptable|408 Request Timeout|409 Conflict|410 Gone
411 Length Required|413 Content Too Large|414 URI Too Long|415 Unsupported Media Type
418 I'm a teapot|421 Misdirected Request|422 Unprocessable Content|425 Too Early
429 Too Many Requests|431 Request Header Fields Too Large|500 Internal Server Error
501 Not Implemented|502 Bad Gateway|503 Service Unavailable|504 Gateway Timeout"""

PORTS = """FTP 21|SSH 22|Telnet 23|SMTP 25|DNS 53|HTTP 80|POP3 110|NTP 123|IMAP 143|SNMP 161
LDAP 389|HTTPS 443|IMAPS 993|MySQL 3306|RDP 3389|PostgreSQL 5432|Redis 6379|Prometheus 9090
MongoDB 27017|etcd 2379|Kafka 9092|MQTT 1883|Grafana 3000|Elasticsearch 9200|Memcached 11211"""

YEARS = """1492|Columbus reached America;1789|the French Revolution began
1804|Napoleon became emperor;1859|Darwin published On the Origin of Species
1865|the American Civil War ended;1869|Mendeleev published his periodic table
1903|the Wright brothers first flew;1905|Einstein published special relativity
1912|the Titanic sank;1914|the First World War began;1918|the First World War ended
1928|Fleming discovered penicillin;1939|the Second World War began
1945|the Second World War ended;1947|the transistor was invented;1953|Everest was first climbed
1957|Sputnik was launched;1961|Gagarin flew into space;1969|people first landed on the Moon
1970|the Unix epoch begins;1971|the first email between computers was sent
1989|the Berlin Wall fell;1991|the Linux kernel was announced
1990|the Hubble telescope was launched;2001|Wikipedia was founded;2015|Rust 1.0 was released
2005|Git was created;2009|Go was announced;2014|Kubernetes was announced
2017|the Transformer was introduced;1983|TCP/IP was adopted on the ARPANET
1066|the Battle of Hastings was fought;1215|Magna Carta was sealed;1455|Gutenberg printed a Bible
1687|Newton published the Principia;1776|the United States declared independence"""

PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()

MISC = """What is the boiling point of water at sea level?|100 degrees Celsius
What is the freezing point of water?|0 degrees Celsius
What is the speed of light?|299792458 metres per second
How many days does a leap year have?|366
How many bits are in a byte?|8
How many sides does a hexagon have?|6
How many sides does a pentagon have?|5
How many sides does an octagon have?|8
How many strings does a violin have?|4
How many legs does a spider have?|8
How many legs does an insect have?|6
How many continents are there?|7
How many players does a football team field?|11
How many squares does a chessboard have?|64
How many cards are in a standard deck?|52
How many degrees are in a circle?|360
How many degrees are in a right angle?|90
How many minutes are in a day?|1440
How many seconds are in an hour?|3600
How many keys does a piano have?|88
What is the largest ocean?|the Pacific Ocean
What is the longest bone in the human body?|the femur
What is the highest mountain on Earth?|Mount Everest
What is the largest planet?|Jupiter
What is the smallest planet?|Mercury
What is the chemical formula of water?|H2O
What is the chemical formula of table salt?|NaCl
What is the chemical formula of carbon dioxide?|CO2
Who wrote Hamlet?|William Shakespeare
Who wrote Faust?|Johann Wolfgang von Goethe
Who wrote Don Quixote?|Miguel de Cervantes
Who painted the Mona Lisa?|Leonardo da Vinci
Who painted Guernica?|Pablo Picasso
Who composed the Ninth Symphony with the Ode to Joy?|Ludwig van Beethoven
Who composed The Magic Flute?|Wolfgang Amadeus Mozart
Who discovered penicillin?|Alexander Fleming
Who formulated the theory of relativity?|Albert Einstein
Who created Linux?|Linus Torvalds
Who created Python?|Guido van Rossum
What is the first letter of the Greek alphabet?|alpha
What is the last letter of the Greek alphabet?|omega
What is the square root of 144?|12
What is 2 to the power of 10?|1024
What is pi to four decimals?|3.1416
What does CPU stand for?|central processing unit
What does GPU stand for?|graphics processing unit
What does HTTP stand for?|Hypertext Transfer Protocol
What does SSE stand for?|server-sent events
What does KV stand for in KV cache?|key and value
What does TTFT stand for?|time to first token
What does LLM stand for?|large language model
What does JSON stand for?|JavaScript Object Notation
What does DNS stand for?|Domain Name System
What does TCP stand for?|Transmission Control Protocol
What does GGUF hold?|the weights and the metadata of a model
What does API stand for?|application programming interface"""


@dataclass(frozen=True)
class Relation:
    """Facts of one kind: how they are asked, how they are answered, the rows of the table."""

    asks: tuple[str, ...]
    answer: str
    rows: tuple[tuple[str, ...], ...]
    level: int


def rows(table: str, parts: int, split: str = "|", inner: str | None = None) -> tuple:
    """Parses a table written as text; `_` inside a cell stands for a space."""
    lines = table.replace("\n", split).split(split)
    cells = (line.split(inner, parts - 1) for line in lines)
    return tuple(tuple(cell.replace("_", " ") for cell in row) for row in cells)


def ordinal(n: int) -> str:
    """Writes 1 as `first` and so on, up to eight."""
    return "first second third fourth fifth sixth seventh eighth".split()[n - 1]


CAPITAL_ROWS = rows(CAPITALS, 2)
ELEMENT_ROWS = rows(ELEMENTS, 3)
STATUS_ROWS = rows(STATUS, 2)
PORT_ROWS = rows(PORTS, 2)
YEAR_ROWS = rows(YEARS, 2, ";", "|")
PLANET_ROWS = tuple((p, ordinal(i + 1)) for i, p in enumerate(PLANETS))
MISC_ROWS = rows(MISC, 2, "\n", "|")

RELATIONS = (
    Relation((
        "What is the capital of {0}?", "Which city is the capital of {0}?", "Capital of {0}?",
        "Name the capital of {0}.", "Tell me the capital city of {0}.",
        "Do you know the capital of {0}?", "{0}: what is its capital?",
        "What's the capital of {0}?"), "The capital of {0} is {1}.", CAPITAL_ROWS, 2),
    Relation((
        "{1} is the capital of which country?", "Which country has {1} as its capital?",
        "Of which country is {1} the capital?", "{1} is the capital of what?"),
        "{1} is the capital of {0}.", CAPITAL_ROWS, 3),
    Relation((
        "What is the chemical symbol of {0}?", "Symbol of {0}?", "What is the symbol for {0}?",
        "Which symbol does {0} have in the periodic table?", "Give me the symbol of {0}.",
        "How is {0} abbreviated in chemistry?"),
        "The symbol of {0} is {1}.", ELEMENT_ROWS, 1),
    Relation((
        "What is the atomic number of {0}?", "Atomic number of {0}?",
        "Which atomic number does {0} have?", "How many protons does {0} have?",
        "Tell me the atomic number of {0}."),
        "The atomic number of {0} is {2}.", ELEMENT_ROWS, 3),
    Relation((
        "Which element has the symbol {1}?", "What element is {1}?",
        "Which element does {1} stand for?", "{1} is the symbol of which element?"),
        "{1} is the symbol of {0}.", ELEMENT_ROWS, 2),
    Relation((
        "What does HTTP status {0} mean?", "What is HTTP {0}?", "HTTP status code {0}?",
        "What does a {0} response mean?", "The server answered {0}. What is that?",
        "Explain HTTP status code {0}.", "Meaning of HTTP {0}?"),
        "HTTP {0} means {1}.", STATUS_ROWS, 2),
    Relation((
        "Which HTTP status code means {1}?", "What is the HTTP code for {1}?",
        "Status code of {1}?", "Which number is {1} in HTTP?"),
        "{1} is HTTP {0}.", STATUS_ROWS, 3),
    Relation((
        "Which port does {0} use?", "What is the default port of {0}?", "Default port for {0}?",
        "On which port does {0} listen?", "Tell me the port of {0}.", "{0} port?"),
        "{0} uses port {1} by default.", PORT_ROWS, 2),
    Relation((
        "What runs on port {1}?", "Which service uses port {1}?", "Port {1} is used by what?",
        "Which protocol or service listens on port {1}?"),
        "Port {1} is the default of {0}.", PORT_ROWS, 3),
    Relation((
        "What happened in {0}?", "Name an event of the year {0}.", "{0}: what happened?",
        "Tell me something that happened in {0}.", "Which event belongs to {0}?"),
        "In {0} {1}.", YEAR_ROWS, 3),
    Relation((
        "Which planet is the {1} from the Sun?", "Name the {1} planet from the Sun.",
        "What is the {1} planet?", "The {1} planet of the solar system is which one?"),
        "The {1} planet from the Sun is {0}.", PLANET_ROWS, 1),
    Relation((
        "{0}", "Tell me: {0}", "Quick question: {0}", "{0} Please answer.", "I wonder: {0}",
        "Do you know this? {0}"), "It is {1}.", MISC_ROWS, 2),
)
WEIGHTS = (8, 4, 4, 4, 3, 5, 4, 4, 3, 4, 1, 7)


def sample(rng: Random) -> Example:
    """Draws one fact in one phrasing."""
    relation = rng.choices(RELATIONS, WEIGHTS)[0]
    row = rng.choice(relation.rows)
    question = rng.choice(relation.asks).format(*row)
    answer = relation.answer.format(*row)
    if relation.rows is MISC_ROWS and row[0].startswith("Who"):
        answer = f"It was {row[1]}."
    return Example("facts", question, (answer,), relation.level)
