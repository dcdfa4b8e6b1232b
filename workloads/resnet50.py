"""ResNet-50 inference: 8 images of 224 x 224.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, lambda tiny: nets.resnet50(8, tiny))
