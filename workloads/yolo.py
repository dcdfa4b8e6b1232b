"""A detector shaped like YOLOv8-s: one image of 640 x 640.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, lambda tiny: nets.yolo(1, tiny))
