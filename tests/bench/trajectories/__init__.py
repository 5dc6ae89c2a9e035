"""Gold actions of public benchmarks, replayed through a real gateway in several ways; ``__main__`` says how."""
