"""The process's own settings: default < config file < environment < flag.

A setting is declared once, in ``settings.Settings``: its flag (``--kubelet-root``), environment variable
(``GPU_DRA_KUBELET_ROOT``), key in the config file (``kubeletRoot``), check, default and help all follow from that line. Only
``cli`` reads settings; everything below it gets plain values.
"""
