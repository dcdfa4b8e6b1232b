"""RoBERTa-large: classes of 4 texts of 128 tokens.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, lambda tiny: nets.roberta(4, 128, tiny))
