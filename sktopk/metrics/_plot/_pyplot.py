"""The only place that imports matplotlib."""


def import_pyplot(caller):
    """Return `matplotlib.pyplot`, or say which extra `caller` needs."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f'{caller} needs matplotlib: pip install "sktopk[plot]"') from error
    return plt
