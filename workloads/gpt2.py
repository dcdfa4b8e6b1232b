"""GPT-2 small: scores of the tokens of one text of 256 tokens.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, lambda tiny: nets.gpt2(1, 256, tiny))
