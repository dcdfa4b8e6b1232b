"""BERT-base: classes of 8 texts of 128 tokens.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, lambda tiny: nets.bert(8, 128, tiny))
