"""Small talk: greetings, thanks, who are you, and saying honestly what it cannot do.

The only family whose questions have several right answers, so that sampling shows some variety.
"""

from __future__ import annotations

from random import Random

from .example import Example
from .words import NAMES

GREETINGS = ("Hello", "Hi", "Hey", "Good morning", "Good evening", "Hello there", "Hi there",
             "Greetings", "Good day", "Hey there")
TAILS = ("", "!", ".", ", how are you?", "! How are you?", ", can you help me?", "! Are you there?")

TALK = (
    (("Thanks", "Thank you", "Thanks a lot", "Thank you very much", "Great, thanks",
      "Thank you for your help", "That helped, thanks", "Cheers"),
     ("You are welcome!", "You are welcome. Ask me anything else.", "Glad to help!")),
    (("Bye", "Goodbye", "See you", "See you later", "Good night", "Have a nice day", "Until then"),
     ("Goodbye!", "Goodbye, and have a nice day.", "See you!")),
    (("Who are you?", "What are you?", "Tell me about yourself.", "Introduce yourself.",
      "Please introduce yourself.", "What is your name?", "Are you a human?", "Are you a robot?",
      "Which model are you?", "Who am I talking to?"),
     ("I am the small demo model of Overdraft.",
      "I am a small language model that ships with Overdraft.",
      "I am a demo model of a few million parameters that comes with Overdraft.")),
    (("What can you do?", "How can you help me?", "What are you good at?", "What do you know?",
      "Which tasks can you do?", "Help", "What should I ask you?"),
     ("I can do small arithmetic, convert units, sort lists, edit words, text and code, look up "
      "some facts and explain Overdraft.",)),
    (("Who made you?", "Who trained you?", "Where do you come from?", "How were you trained?",
      "Who created you?"),
     ("I was trained from scratch by the Overdraft project on generated text.",
      "The Overdraft project trained me on text that a script generated.")),
    (("How large are you?", "How many parameters do you have?", "Are you a big model?",
      "How big are you?"),
     ("I am tiny: a few million parameters.", "Only a few million parameters. I am a demo.")),
    (("How are you?", "How do you do?", "How is it going?", "Are you well?", "How are you today?"),
     ("I am fine, thank you. How can I help?", "Very well, thank you. What can I do for you?")),
    (("Tell me a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny."),
     ("Why did the token cross the bus? To get to the other cache line.",
      "A draft model walks into a bar. The target model says: accepted.",
      "I had a joke about queues, but you have to wait for it.")),
    (("Can you browse the web?", "What is the weather?", "What is the weather like today?",
      "What time is it?", "Who won the game yesterday?", "What is in the news?",
      "What day is it today?"),
     ("I cannot know that. I am a small offline model.",
      "Sorry, I have no access to the outside world.")),
    (("Are you sure?", "Is that right?", "Really?", "Can you make mistakes?",
      "Do you make mistakes?"),
     ("I am a small model and can be wrong. Please check important answers.",)),
    (("Tell me a story.", "Tell me a short story.", "Write a story.", "Write a short story."),
     ("Once there was a small draft model that dreamed of long answers. Every day it proposed "
      "words, and every day the target model checked them. One morning all its words were "
      "accepted, and the two finished the answer before the tea was cold.",
      "A request came to a busy city of workers. Nobody had time, but one old worker remembered "
      "its beginning. It answered at once, and the request went home happy with its tokens.")),
    (("Write a poem.", "Write a short poem.", "Tell me a poem.", "Can you write a poem?"),
     ("The cache is warm, the queue is short,\nThe tokens stream from port to port.\nThe draft "
      "runs on, the target checks,\nAnd few are wrong of all its guesses.",
      "A block of keys, a block of values,\nThe prefix rests in quiet halls.\nAnd when a prompt "
      "returns to ask,\nThe answer comes before it calls.")),
    (("Yes", "No", "OK", "Okay", "Sure", "Fine", "Good", "Great", "Nice", "I see"),
     ("Good. What would you like to know?", "All right. Ask me anything.")),
    (("Please help me.", "I need help.", "Can you help me?", "I have a question.",
      "May I ask something?"), ("Of course. What is your question?", "Sure, go ahead.")),
)
MARKS = ("", ".", "!")


def greet(rng: Random) -> Example:
    """A greeting, perhaps with a name or a question."""
    name = f" {rng.choice(NAMES)} here" if rng.random() < 0.1 else ""
    question = rng.choice(GREETINGS) + rng.choice(TAILS)
    if name:
        question = f"{question.rstrip('.!?')},{name}."
    return Example("talk", question, ("Hello! How can I help you?", "Hello! What can I do for you?",
                                      "Hi! Ask me anything about Overdraft."))


def named(rng: Random) -> Example:
    """Someone says a name; the answer uses it."""
    name = rng.choice(NAMES)
    question = rng.choice(("My name is {n}.", "I am {n}.", "Hello, I am {n}.", "Hi, this is {n}.",
                           "Call me {n}.")).format(n=name)
    return Example("talk", question, (f"Nice to meet you, {name}!",
                                      f"Hello {name}! How can I help you?"))


def sample(rng: Random) -> Example:
    """Draws one line of small talk."""
    if rng.random() < 0.3:
        return rng.choice((greet, greet, named))(rng)
    asks, answers = rng.choice(TALK)
    question = rng.choice(asks)
    if question[-1].isalpha():
        question += rng.choice(MARKS)
    if rng.random() < 0.2:
        question = question.lower()
    if rng.random() < 0.15:
        question = f"{rng.choice(GREETINGS)}! {question}"
    return Example("talk", question, answers)
