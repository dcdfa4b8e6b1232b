"""Inception v3 inference: 4 images of 299 x 299.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, lambda tiny: nets.inception_v3(4, tiny))
