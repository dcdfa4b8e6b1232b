"""A streaming decoder shaped like Llama 3.2 1B: fp16, eager, batch 1; every token is a request.

"""

import nets
import service

if __name__ == "__main__":
    service.main(__doc__, nets.decoder, service.Stream, is_stream=True)
