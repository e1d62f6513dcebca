"""Durable workflows for Django."""
