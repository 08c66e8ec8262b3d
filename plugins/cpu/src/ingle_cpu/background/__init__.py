"""Background: plans that run while Python goes on."""
