"""Parameters and optimizer states spread over ranks in place, and put together again."""
