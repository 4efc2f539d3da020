"""Networks trained by skorch; nothing here knows an estimator."""
